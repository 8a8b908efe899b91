"""`tfopt diagnose`: show where the time of a step goes."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@click.option("--stack", "stacked", is_flag=True, help="Diagnose with the stack, not the baseline.")
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@debug_option
def diagnose(
    target: str,
    overrides: tuple[str, ...],
    stacked: bool,
    json_path: Path | None,
    quiet: bool,
    debug: bool,
) -> None:
    """Show how a step of RECIPE divides into input, dispatch and compute, and the possible gains.

    Takes under a minute and needs no profiler. The baseline is diagnosed: the workload without the
    plugins of the recipe, which may be empty. RECIPE may be a script,
    train.py. Installed plugins propose their settings.
    """
    import attrs

    from tfopt_core.commands.output import ReportFiles
    from tfopt_core.commands.request import temporary_request
    from tfopt_core.diagnosis.process import diagnose as measure_parts
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.report.diagnosis import render_diagnosis
    from tfopt_core.report.live import make_phases
    from tfopt_core.report.style.console import make_console
    from tfopt_core.workers.spawn import SpawnRunner

    files = ReportFiles(json_path)
    files.check()
    with (
        temporary_request(target, overrides, debug=debug) as request,
        make_phases(make_console(stderr=True, quiet=quiet)) as on_phase,
    ):
        if not stacked:
            request = attrs.evolve(request, plugins=())
        on_phase("looking at the plugins that are installed")
        diagnosed = measure_parts(request, SpawnRunner(), inspect_plugins(), on_phase)
    files.show(render_diagnosis(diagnosed, target), diagnosed)
