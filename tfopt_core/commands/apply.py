"""`tfopt apply`: measure the stack against the baseline."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.commands.output import ReportFiles
from tfopt_core.errors import InputError
from tfopt_core.report.style.console import make_console
from tfopt_core.statistics.results import MemoryVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from tfopt_core.diagnosis.draft import NothingToMeasure
    from tfopt_core.recipe.model import WorkloadSpec
    from tfopt_core.statistics.results import Comparison, Results
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.spawn import Runner
    from tfopt_core.workers.supervise import Limits


PLAN = "looking at {script} and trying what it proposes for about a minute, then pairs of runs"


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=shared.recipes_and_files)
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@shared.module_option
@shared.set_option
@click.option(
    "--script", type=click.Path(), metavar="FILE",
    help="Measure this script with the recipe's plugins.",
)  # fmt: skip
@click.option(
    "--epochs", type=click.IntRange(min=1), metavar="N",
    help="Cut each fit of a script to N epochs, for a quick look.",
)  # fmt: skip
@click.option(
    "--max-steps", type=click.IntRange(min=1), metavar="N",
    help="Cut each fit, or a loop of the script's own, to N steps, for a quick look.",
)  # fmt: skip
@click.option(
    "--fit", type=click.IntRange(min=1), metavar="N",
    help="Look at and judge the Nth call of fit of a script; all are judged together otherwise.",
)  # fmt: skip
@shared.write_option
@click.option(
    "--measure-anyway", is_flag=True,
    help="If no plugin seems to save time, measure the one that came out best.",
)  # fmt: skip
@click.option(
    "--full", is_flag=True,
    help="Train each run to its end, which tells whether the model is as good.",
)  # fmt: skip
@click.option(
    "--pairs", type=int, metavar="N",
    help="Measure N pairs, at least 4; without it as many as 85 s hold, 6 to 24.",
)  # fmt: skip
@click.option(
    "--seconds", type=float, metavar="S",
    help="How long each run trains after its start, in place of 2.5 to 5 s or whole trainings.",
)  # fmt: skip
@click.option(
    "--budget", metavar="TIME",
    help="Choose pairs and seconds that fit into this time: 5m, 90s, 1h30m.",
)  # fmt: skip
@shared.report_option(shared.html_option, shared.markdown_option)
@shared.save_option
@click.option(
    "--require", type=click.Choice([Verdict.FASTER.value, MemoryVerdict.LIGHTER.value]),
    help="End with status 1 unless the stack is this: faster, or lighter in peak memory.",
)  # fmt: skip
@click.option(
    "--resume", "resuming", is_flag=True, help="Continue the measurement that was stopped."
)
@click.option(
    "--no-wait", is_flag=True,
    help="End with status 2 if another tfopt measures in this project, instead of waiting for it.",
)  # fmt: skip
@click.option(
    "--time-limit", metavar="TIME",
    help="End a run that takes longer: 10m, 1h. One without a sign of life ends after 30 min.",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print the answer only, no progress.")
@shared.verbose_option
@shared.debug_option
def apply(
    files: ReportFiles, require: str | None, quiet: bool, verbose: bool, **options: Any
) -> int:
    """Train without and with a stack, and print the gain.

    TARGET is a recipe: a file, or the name of one that ships with tfopt (`tfopt recipes`). Or it
    is an unchanged Keras script: train.py, or with -m a module, package.train. tfopt looks at it
    and tries plugins for about a minute, writes the recipe train.tfopt.toml and measures it. Recipe
    and verdict are about plugins that train exactly the same, up to the order of examples; what
    lower precision adds is measured too; its plugins are comments in the recipe. If no plugin of
    that kind helps, the recipe has lower precision and the like, and the answer says so. If nothing
    seems to save time, it prints what limits a step and what each plugin did, and ends with status
    0. Arguments after -- are the script's own. Workload, script and plugins are executed.
    """
    from tfopt_core.diagnosis.draft import NothingToMeasure
    from tfopt_core.report.diagnosis import render_nothing_in_full
    from tfopt_core.report.html.page import nothing_page
    from tfopt_core.report.results.answer import render_nothing
    from tfopt_core.report.results.markdown import markdown_nothing

    asked = ApplyOptions(**options)
    results = conduct(asked, make_console(stderr=True, quiet=quiet))
    if isinstance(results, NothingToMeasure):
        files.show(
            render_nothing_in_full(results) if verbose else render_nothing(results),
            results,
            lambda: nothing_page(results),
            lambda: markdown_nothing(results),
        )
        return 0 if require is None else 1
    files.show_results(results, _recipe_of(asked), verbose=verbose)
    code = exit_code(results, require)
    if require is not None and code == 1:
        _, statement = judged(results.comparison, require)
        click.echo(f"--require {require} is not met: {statement}", err=True)
    return code


def exit_code(results: Results, require: str | None) -> int:
    """Return 0 (done), 1 (requirement not met), 3 (runs failed) or 130 (interrupted)."""
    if results.interrupted:
        return 130
    if results.comparison.verdict is Verdict.NONE and results.failed:
        return 3
    return 0 if require is None or judged(results.comparison, require)[0] else 1


def _recipe_of(asked: ApplyOptions) -> str | None:
    """Return the recipe that was measured, as the user names it; None if options changed it."""
    from tfopt_core.commands.check import script_of
    from tfopt_core.commands.first_contact import written_recipe

    spec = script_of(asked.target, module=asked.module)
    if spec is not None:
        return os.path.relpath(written_recipe(asked, spec))
    return None if asked.overrides or asked.script else asked.target


def judged(comparison: Comparison, require: str) -> tuple[bool, str]:
    """Return whether the stack is what is required, whatever the objective, and the statement
    that says so."""
    if require == Verdict.FASTER:
        return comparison.verdict is Verdict.FASTER, comparison.statement
    memory = comparison.judged_memory
    if memory is None:
        return comparison.verdict is Verdict.FITS, comparison.statement
    lighter = memory.verdict is MemoryVerdict.LIGHTER or comparison.verdict is Verdict.FITS
    return lighter, memory.statement


def conduct(options: ApplyOptions, console: Console) -> Results | NothingToMeasure:
    """Measure, unless a look at a script finds nothing that is worth it.

    While another process measures in the project, wait for it.

    :param console: shows the progress: that of standard error.
    :raises InputError: for errors in the recipe, the script or the options.
    :raises TfoptError: for an error that prevents every run.
    """
    from tfopt_core.commands import request as asking
    from tfopt_core.commands.check import script_of
    from tfopt_core.commands.first_contact import check_contact
    from tfopt_core.measurement.session import measure, resume
    from tfopt_core.workers.supervise import Limits

    limits = Limits(total=asking.seconds_of("--time-limit", options.time_limit))
    spec = script_of(options.target, module=options.module)
    # everything that can be checked is, before anybody waits
    if spec is not None:
        spec = check_contact(options, spec)
        beside = (options.write_to or Path("recipe.toml")).absolute().parent
        folder = asking.results_of(asking.project_of(beside))
    else:
        request, folder = asking.make_request(
            options.target, options.changes(), compares=True, save_to=options.save_to,
            debug=options.debug,
        )  # fmt: skip
    command = f"tfopt apply {options.target}"
    with asking.alone_in_project(folder, command, console, no_wait=options.no_wait):
        if spec is not None:
            return _first_contact(options, spec, limits, console)
        return _run(resume if options.resuming else measure, request, folder, limits, console)


def _first_contact(
    options: ApplyOptions, spec: WorkloadSpec, limits: Limits, console: Console
) -> Results | NothingToMeasure:
    """Look at a script, write its recipe, and measure that."""
    from tfopt_core.commands.first_contact import (
        keep_outcome,
        look_at,
        prepared_for,
        written_recipe,
    )
    from tfopt_core.commands.request import make_request
    from tfopt_core.measurement.session import measure
    from tfopt_core.report.style.layout import words

    console.print(words(PLAN.format(script=spec.label), "dim"))
    found, path = look_at(options, spec, limits, console), written_recipe(options, spec)
    if found.tried is None:
        return found.nothing(options.target)
    request, folder = make_request(
        str(path), options.overrides, compares=True, save_to=options.save_to,
        debug=options.debug,
    )  # fmt: skip
    prepared, request, extended = prepared_for(found, request, path)
    results = _run(
        measure, request, folder, limits, console, prepared_before=(prepared, request),
        extended=extended,
    )  # fmt: skip
    try:
        keep_outcome(found, path, results)
    except InputError as error:
        # the verdict is printed all the same
        return attrs.evolve(results, warnings=(*results.warnings, str(error)))
    return results


def _run(
    measure: Callable[..., Results], request: Request, folder: Path, limits: Limits,
    console: Console, **known: Any,
) -> Results:  # fmt: skip
    """Measure, or resume, with the project's store; `folder` is that of its results."""
    from tfopt_core.report.live import MeasurementView
    from tfopt_core.store.database import Store, store_path

    with (
        Store(store_path(folder.parent)) as store,
        MeasurementView(console) as observer,
        _runner(request, limits) as runner,
    ):
        return measure(request, runner=runner, store=store, observer=observer, **known)


def _runner(request: Request, limits: Limits) -> AbstractContextManager[Runner]:
    """Return the runner of the measurement; for a distributed stack it starts all processes.

    :raises InputError: if this process is part of a cluster that was started already.
    """
    from tfopt_core.commands.request import check_none_described, cluster_of
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.local_cluster import LocalCluster
    from tfopt_core.workers.spawn import SpawnRunner

    spawn = SpawnRunner(limits=limits)
    if cluster_of(request) is None:
        return ForkRunner(spawn)
    check_none_described(request.environment, "apply")
    # processes of a cluster are never forked, so their baseline is not forked either
    return nullcontext(LocalCluster(spawn=spawn))
