"""`tfopt plan`: what a stack would do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import rich_click as click

from tfopt_core.cli.options import debug_option, set_option


@click.command()
@click.argument("target", metavar="RECIPE")
@set_option
@debug_option
def plan(target: str, overrides: tuple[str, ...], debug: bool) -> None:
    """Show what each plugin of RECIPE would do, in order; nothing is trained.

    Settings of "auto" are resolved, conflicts are found, and the data plan is shown before and
    after.
    """
    from tfopt_core.app.command_request import make_request
    from tfopt_core.report.plan import render_plan
    from tfopt_core.report.style.console import make_console
    from tfopt_core.trials.preparation import prepare_in_detail
    from tfopt_core.workers.spawn import SpawnRunner

    request = make_request(target, overrides, compares=False, keeps=False, debug=debug)[0]
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare_in_detail(attrs.evolve(request, folder=Path(folder)), SpawnRunner())
    make_console().print(render_plan(prepared, request.recipe.name))
