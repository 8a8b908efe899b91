"""`tfopt diagnose`: show where the time of a step goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@click.option("--stack", "stacked", is_flag=True, help="Diagnose with the stack, not the baseline.")
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@debug_option
def diagnose(json_path: Path | None, quiet: bool, target: str, **options: Any) -> None:
    """Show how a step of RECIPE divides into input, dispatch and compute, and the possible gains.

    Takes under a minute and needs no profiler. The baseline is diagnosed: the workload without the
    plugins of the recipe, which may be empty. RECIPE may be a script,
    train.py. Installed plugins propose their settings.
    """
    from tfopt_core.app.diagnose import diagnose_recipe
    from tfopt_core.commands.output import show
    from tfopt_core.report.diagnosis import render_diagnosis
    from tfopt_core.report.terminal import Terminal

    diagnosed = diagnose_recipe(target, view=Terminal(quiet=quiet), json_path=json_path, **options)
    show(render_diagnosis(diagnosed, target), diagnosed, json_path)
