"""`tfopt diagnose`: where a step's time goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, set_option


@click.command()
@click.argument("target", metavar="RECIPE")
@set_option
@click.option("--stack", "stacked", is_flag=True, help="Diagnose with the stack, not the baseline.")
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print the outcome only, no progress.")
@debug_option
def diagnose(
    target: str,
    overrides: tuple[str, ...],
    stacked: bool,
    json_path: Path | None,
    quiet: bool,
    debug: bool,
) -> None:
    """See where a step of RECIPE goes: input, dispatch, compute; and what could be gained.

    Takes under a minute and no profiler. The baseline is diagnosed: the workload without the
    plugins of the recipe, so it may name none. Installed plugins are asked what they would do.
    """
    from tfopt_core.app.command_request import make_request
    from tfopt_core.cli.output import show
    from tfopt_core.diagnosis.process import diagnose as take_apart
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.report.diagnosis import render_diagnosis
    from tfopt_core.report.live.phases import make_phases
    from tfopt_core.report.style.console import make_console
    from tfopt_core.workers.spawn import SpawnRunner

    request, _ = make_request(
        target, overrides, compares=False, keeps=False, json_path=json_path, debug=debug
    )
    if not stacked:
        request = attrs.evolve(request, plugins=())
    with (
        tempfile.TemporaryDirectory(prefix="tfopt-diagnose-") as folder,
        make_phases(make_console(stderr=True), quiet=quiet) as on_phase,
    ):
        on_phase("looking at the plugins that are installed")
        installed = inspect_plugins()
        diagnosed = take_apart(
            attrs.evolve(request, folder=Path(folder)), SpawnRunner(), installed, on_phase
        )
    show(render_diagnosis(diagnosed, target), diagnosed, json_path)
