"""`tfopt apply`: baseline against stack."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, save_option, set_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.measure.isolate import Runner
    from tfopt_core.measure.request import Request
    from tfopt_core.measure.supervise import Limits


@click.command()
@click.argument("target", metavar="TARGET")
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@set_option
@click.option("--script", metavar="FILE", help="Measure this script with the recipe's plugins.")
@click.option(
    "--epochs", type=click.IntRange(min=1), metavar="N",
    help="Cut each fit of a script to N epochs, for a quick look.",
)  # fmt: skip
@click.option(
    "--max-steps", type=click.IntRange(min=1), metavar="N",
    help="Cut each fit of a script to N steps, for a quick look.",
)  # fmt: skip
@click.option(
    "--write", "write_to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the recipe for a script goes, in place of NAME.tfopt.toml.",
)  # fmt: skip
@click.option("--pairs", type=int, metavar="N", help="Measure exactly N pairs, at least 4.")
@click.option("--budget", metavar="TIME", help="How long measuring may take: 5m, 90s, 1h30m.")
@json_option
@save_option
@click.option(
    "--require",
    type=click.Choice(["faster"]),
    help="End with status 1 unless the verdict is this.",
)
@click.option("--resume", "resuming", is_flag=True, help="Go on with what was stopped.")
@click.option(
    "--time-limit",
    metavar="TIME",
    help="End a run that takes longer: 10m, 1h. One without a sign of life ends after 30 min.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the summary only, no progress.")
@debug_option
def apply(
    target: str,
    arguments: tuple[str, ...],
    overrides: tuple[str, ...],
    script: str | None,
    epochs: int | None,
    max_steps: int | None,
    write_to: Path | None,
    pairs: int | None,
    budget: str | None,
    json_path: Path | None,
    save_to: Path | None,
    require: str | None,
    resuming: bool,
    time_limit: str | None,
    quiet: bool,
    debug: bool,
) -> int:
    """Train without and with a stack, and say what was gained.

    TARGET is a recipe: a file, or the name of one that ships with tfopt (`tfopt recipes`). Or it
    is a Keras script (train.py), which stays as it is: tfopt looks at it for some seconds, writes
    the recipe train.tfopt.toml with what is worth trying, and measures that. What stands behind --
    are the script's own arguments. Workload, script and plugins are executed.
    """
    from tfopt_core.cli.first_contact import is_script, keep_outcome, look_at, prepared_for
    from tfopt_core.cli.request import make_request, seconds_of
    from tfopt_core.cli.script_options import ScriptOptions
    from tfopt_core.measure.resume import resume
    from tfopt_core.measure.session import measure
    from tfopt_core.measure.supervise import Limits
    from tfopt_core.report.as_json import write_json
    from tfopt_core.report.console import make_console
    from tfopt_core.report.live import make_observer
    from tfopt_core.report.summary import render_summary
    from tfopt_core.store.database import Store, store_path

    options = ScriptOptions(script=script, arguments=arguments, epochs=epochs, max_steps=max_steps)
    limit = None if time_limit is None else seconds_of("--time-limit", time_limit)
    changes = list(overrides)
    if pairs is not None:
        changes.append(f"measure.pairs={pairs}")
    if budget is not None:
        changes.append(f'measure.budget="{budget}"')
    contact = None
    if is_script(target):
        contact = look_at(
            target, options, overrides, budget=budget, pairs=pairs, write_to=write_to,
            resuming=resuming, limits=Limits(total=limit), quiet=quiet, debug=debug,
        )  # fmt: skip
        if contact.prepared is None:
            return 0 if require is None else 1
        target, changes = str(contact.path), list(overrides)
    else:
        changes += options.overrides()
        if write_to is not None:
            raise InputError("--write is about a script without a recipe")
    request, folder = make_request(
        target, changes, compares=True, save_to=save_to, json_path=json_path, debug=debug
    )
    carried_out = _runner(request, Limits(total=limit))
    with (
        Store(store_path(folder.parent)) as store,
        make_observer(make_console(stderr=True), quiet=quiet) as observer,
        carried_out as runner,
    ):
        if resuming:
            results = resume(request, runner=runner, store=store, observer=observer)
        else:
            before = None if contact is None else prepared_for(contact, request)
            results = measure(
                request, runner=runner, store=store, observer=observer, prepared_before=before
            )
    if contact is not None:
        keep_outcome(contact, results)
    # with the JSON on standard output, the summary goes where it cannot disturb it
    to_stdout = json_path is not None and str(json_path) == "-"
    make_console(stderr=to_stdout).print(render_summary(results))
    if json_path is not None:
        write_json(results, "-" if to_stdout else json_path)
    return exit_code(results.comparison.verdict, bool(results.failed), results.interrupted, require)


def _runner(request: Request, limits: Limits) -> AbstractContextManager[Runner]:
    """What carries out the runs; a stack over several processes has all of them started here.

    :raises InputError: if somebody else has started a cluster that this is a part of.
    """
    from tfopt_core.measure.clustered import check_none_described, cluster_of
    from tfopt_core.measure.fork import ForkRunner
    from tfopt_core.measure.isolate import SpawnRunner
    from tfopt_core.measure.local_cluster import LocalCluster

    spawn = SpawnRunner(limits=limits)
    if cluster_of(request) is None:
        return ForkRunner(spawn)
    check_none_described(request.environment, "apply")
    # processes of a cluster are never forked: so neither is what they are compared with
    return nullcontext(LocalCluster(inner=spawn, spawn=spawn))


def exit_code(verdict: str, failed: bool, interrupted: bool, require: str | None) -> int:
    """0 done, 1 the requirement is not met, 3 no verdict because runs failed, 130 interrupted."""
    if interrupted:
        return 130
    if verdict == "none" and failed:
        return 3
    return 1 if require is not None and verdict != require else 0
