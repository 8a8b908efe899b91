"""`tfopt plan`: show what a stack would do."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@json_option
@debug_option
def plan(target: str, overrides: tuple[str, ...], json_path: Path | None, debug: bool) -> None:
    """Show what each plugin of RECIPE would do, in order; nothing is trained.

    Settings of "auto" are resolved, conflicts are reported, and the data plan is shown before and
    after. RECIPE may be a script, train.py, which has no plugins.
    """
    import attrs

    from tfopt_core.commands.check import missing_target
    from tfopt_core.commands.output import ReportFiles, show_list
    from tfopt_core.commands.request import temporary_request
    from tfopt_core.report.plan import render_plan
    from tfopt_core.trials.processes import prepare
    from tfopt_core.workers.spawn import SpawnRunner

    ReportFiles(json_path).check()
    with temporary_request(target, overrides, debug=debug) as request:
        prepared, _ = prepare(request.observed(), SpawnRunner())
    needs = (
        f"`tfopt apply` needs a target: {problem.message}; {problem.mend}"
        for problem in missing_target(request.reading, request.plugins)
    )
    prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, *needs))
    name = request.recipe.name
    show_list(render_plan(prepared, name), json_path, recipe=name, plan=prepared)
