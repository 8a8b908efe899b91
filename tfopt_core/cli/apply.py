"""`tfopt apply`: measure the stack against the baseline."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, save_option, set_option
from tfopt_core.records.verdict import Verdict


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
    "--fit", type=click.IntRange(min=1), metavar="N",
    help="Look at and judge the Nth call of fit of a script; all are judged together otherwise.",
)  # fmt: skip
@click.option(
    "--write", "write_to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the recipe for a script goes, in place of NAME.tfopt.toml.",
)  # fmt: skip
@click.option(
    "--measure-anyway", is_flag=True,
    help="Measure a script's least costly plugin even where none seems to save time.",
)  # fmt: skip
@click.option("--pairs", type=int, metavar="N", help="Measure exactly N pairs, at least 4.")
@click.option("--budget", metavar="TIME", help="How long measuring may take: 5m, 90s, 1h30m.")
@json_option
@save_option
@click.option(
    "--require",
    type=click.Choice([Verdict.FASTER.value]),
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
    fit: int | None,
    write_to: Path | None,
    measure_anyway: bool,
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
    """Train without and with a stack, and report the gain.

    TARGET is a recipe: a file, or the name of one that ships with tfopt (`tfopt recipes`). Or it
    is an unchanged Keras script (train.py): tfopt looks at it for some seconds, writes the recipe
    train.tfopt.toml with what is worth trying, and measures it. If no plugin seems to save time, it
    prints what bounds a step and what each plugin did, and ends with status 0. Arguments after --
    are the script's own. Workload, script and plugins are executed.
    """
    from tfopt_core.app.apply import Asked, NothingToMeasure, conduct
    from tfopt_core.app.script_options import ScriptOptions
    from tfopt_core.report.first_contact import render_nothing
    from tfopt_core.report.results.as_json import write_json
    from tfopt_core.report.results.summary import render_summary
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.terminal import Terminal

    results = conduct(
        Asked(
            target=target, overrides=overrides, write_to=write_to, measure_anyway=measure_anyway,
            pairs=pairs, budget=budget, json_path=json_path, save_to=save_to, resuming=resuming,
            time_limit=time_limit, debug=debug,
            script=ScriptOptions(
                script=script, arguments=arguments, epochs=epochs, max_steps=max_steps, fit=fit
            ),
        ),
        Terminal(quiet=quiet),
    )  # fmt: skip
    # with the JSON on standard output, the summary goes where it cannot disturb it
    to_stdout = json_path is not None and str(json_path) == "-"
    console = make_console(stderr=to_stdout)
    if json_path is not None:
        write_json(results, "-" if to_stdout else json_path)
    if isinstance(results, NothingToMeasure):
        console.print(render_nothing(results.bound, results.left_out))
        return 0 if require is None else 1
    console.print(render_summary(results))
    return exit_code(results.comparison.verdict, bool(results.failed), results.interrupted, require)


def exit_code(verdict: Verdict, failed: bool, interrupted: bool, require: str | None) -> int:
    """Return 0 (done), 1 (requirement not met), 3 (runs failed) or 130 (interrupted)."""
    if interrupted:
        return 130
    if verdict is Verdict.NONE and failed:
        return 3
    return 1 if require is not None and verdict != require else 0
