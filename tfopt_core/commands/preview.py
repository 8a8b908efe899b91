"""`tfopt init`, `tfopt plan`, `tfopt diagnose` and `tfopt export`: look at a training without
measuring it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.commands.output import ReportFiles
from tfopt_core.report.style.console import make_console


@click.command()
@click.argument("target", metavar="TARGET", type=click.Path())
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@shared.module_option
@shared.set_option
@shared.write_option
@shared.debug_option
def init(**options: Any) -> None:
    """Write a recipe for TARGET: a script (train.py), or a factory (module:callable, or
    file.py:callable).

    It is the first look of `tfopt apply train.py`, without measuring: TARGET is trained for some
    seconds, and each plugin that is proposed is tried. Plugins that round differently and seem
    to save time stand in the recipe as comments, if others do too. Arguments after -- are the
    script's own. If no plugin seems to save time, it prints what limits a step, and writes nothing.
    """
    from tfopt_core.commands.first_contact import look_alone
    from tfopt_core.diagnosis.draft import NothingToMeasure
    from tfopt_core.report.diagnosis import render_nothing_in_full

    found = look_alone(ApplyOptions(**options), make_console(stderr=True))
    if isinstance(found, NothingToMeasure):
        make_console().print(render_nothing_in_full(found))
        return
    draft, path = found
    before = "" if draft.stack else "take a # off in it, then "
    shown = path.name if path.parent == Path.cwd() else path
    click.echo(f"to measure it: {before}tfopt apply {shown}")


@click.command()
@shared.recipe_argument
@shared.set_option
@shared.report_option()
@shared.debug_option
def plan(target: str, overrides: tuple[str, ...], files: ReportFiles, debug: bool) -> None:
    """Show what each plugin of RECIPE would do, in order; nothing is measured.

    Settings of "auto" are resolved, conflicts are reported, and the stages of the input pipeline
    are shown without and with the plugins. RECIPE may be a script, train.py, which has no plugins.
    """
    import attrs

    from tfopt_core.commands.check import missing_target
    from tfopt_core.commands.request import temporary_request
    from tfopt_core.report.plan import render_plan
    from tfopt_core.trials.processes import prepare
    from tfopt_core.workers.spawn import SpawnRunner

    with temporary_request(target, overrides, debug=debug) as request:
        prepared, _ = prepare(request.observed(), SpawnRunner())
    needs = (
        f"`tfopt apply` needs a target: {problem.message}; {problem.mend}"
        for problem in missing_target(request.reading, request.plugins)
    )
    prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, *needs))
    name = request.recipe.name
    files.show_list(render_plan(prepared, name), recipe=name, plan=prepared)


@click.command()
@shared.recipe_argument
@shared.set_option
@click.option("--stack", "stacked", is_flag=True, help="Diagnose with the stack, not the baseline.")
@shared.report_option()
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@shared.debug_option
def diagnose(
    target: str, overrides: tuple[str, ...], stacked: bool, files: ReportFiles, quiet: bool,
    debug: bool,
) -> None:  # fmt: skip
    """Show how a step of RECIPE divides into input, dispatch and compute, and the possible gains.

    Takes under a minute and needs no profiler. The baseline is diagnosed: the workload without the
    recipe's plugins. RECIPE needs no plugins, and may be a script, train.py. Installed
    plugins propose their settings.
    """
    import attrs

    from tfopt_core.commands.request import temporary_request
    from tfopt_core.diagnosis.process import diagnose as measure_parts
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.report.diagnosis import render_diagnosis
    from tfopt_core.report.live import make_phases
    from tfopt_core.workers.spawn import SpawnRunner

    with (
        temporary_request(target, overrides, debug=debug) as request,
        make_phases(make_console(stderr=True, quiet=quiet)) as on_phase,
    ):
        if not stacked:
            request = attrs.evolve(request, plugins=())
        on_phase("looking at the plugins that are installed")
        diagnosed = measure_parts(request, SpawnRunner(), inspect_plugins(), on_phase)
    files.show(render_diagnosis(diagnosed, target), diagnosed)


@click.command()
@shared.recipe_argument
@shared.set_option
@shared.debug_option
def export(target: str, overrides: tuple[str, ...], debug: bool) -> None:
    """Print what to write in your own code, for each plugin of RECIPE's stack.

    Settings of "auto" are resolved first. A plugin that only tfopt can apply says so.
    """
    from tfopt_core.commands.check import refuse_script
    from tfopt_core.commands.request import temporary_request
    from tfopt_core.hooks.plugin_class import guarded
    from tfopt_core.report.style.vocabulary import settings_in_words

    refuse_script(target, "tfopt export")
    with temporary_request(target, overrides, debug=debug) as request:
        request = request.observed()
        if any("auto" in one.settings.values() for one in request.plugins):
            from tfopt_core.trials.processes import prepare
            from tfopt_core.workers.spawn import SpawnRunner

            _, request = prepare(request, SpawnRunner())
        lines = [guarded(one.name, "by_hand", one.plugin.by_hand) for one in request.plugins]
    if not lines:
        click.echo("# the stack is empty: plain Keras trains it")
    for number, (stacked, text) in enumerate(zip(request.plugins, lines, strict=True)):
        settings = settings_in_words(stacked.settings)
        blank = "\n" if number else ""
        click.echo(f"{blank}# {stacked.name}{f': {settings}' if settings else ''}")
        click.echo(text or "# nothing to write by hand: only tfopt applies it")
