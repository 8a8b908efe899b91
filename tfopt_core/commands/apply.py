"""`tfopt apply`: measure the stack against the baseline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from tfopt_core.commands import completion
from tfopt_core.commands.options import (
    debug_option,
    html_option,
    json_option,
    markdown_option,
    module_option,
    save_option,
    set_option,
    verbose_option,
    write_option,
)
from tfopt_core.records.verdict import MemoryVerdict, Verdict

if TYPE_CHECKING:
    from tfopt_core.app.apply_options import ApplyOptions  # half of the start of every command
    from tfopt_core.records.results import Comparison


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=completion.recipes_and_files)
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@module_option
@set_option
@click.option(
    "--script", metavar="FILE", help="Measure this script with the recipe's plugins.",
    shell_complete=completion.files,
)  # fmt: skip
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
@write_option
@click.option(
    "--measure-anyway", is_flag=True,
    help="Measure a script's least costly plugin even where none seems to save time.",
)  # fmt: skip
@click.option(
    "--full", is_flag=True,
    help="Train each run to its end, which tells whether the model is as good.",
)  # fmt: skip
@click.option("--pairs", type=int, metavar="N", help="Measure N pairs, at least 4; 6 otherwise.")
@click.option(
    "--seconds", type=float, metavar="S",
    help="How long each run trains behind its start, in place of 5 s or whole trainings.",
)  # fmt: skip
@click.option(
    "--budget", metavar="TIME",
    help="Choose pairs and seconds that fit into this time: 5m, 90s, 1h30m.",
)  # fmt: skip
@json_option
@html_option
@markdown_option
@save_option
@click.option(
    "--require",
    type=click.Choice([Verdict.FASTER.value, MemoryVerdict.LIGHTER.value]),
    help="End with status 1 unless the stack is this: faster, or lighter in peak memory.",
)
@click.option("--resume", "resuming", is_flag=True, help="Go on with what was stopped.")
@click.option(
    "--no-wait", is_flag=True,
    help="End with status 2 if another tfopt measures in this project, instead of waiting for it.",
)  # fmt: skip
@click.option(
    "--time-limit",
    metavar="TIME",
    help="End a run that takes longer: 10m, 1h. One without a sign of life ends after 30 min.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the answer only, no progress.")
@verbose_option
@debug_option
def apply(
    json_path: Path | None,
    html_path: Path | None,
    markdown_path: Path | None,
    require: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Train without and with a stack, and print the gain.

    TARGET is a recipe: a file, or the name of one that ships with tfopt (`tfopt recipes`). Or it
    is an unchanged Keras script: train.py, or with -m a module, package.train. tfopt looks at it
    for some seconds, writes the recipe train.tfopt.toml with what is worth trying, and measures it.
    The recipe and the verdict are about plugins that train exactly the same, up to the order of
    examples; what lower precision adds is measured too, and stands in the recipe as comments. If no
    plugin seems to save time, it prints what bounds a step and what each plugin did, and ends with
    status 0. Arguments after -- are the script's own. Workload, script and plugins are executed.
    """
    from tfopt_core.app.apply import conduct
    from tfopt_core.app.apply_options import ApplyOptions
    from tfopt_core.app.first_contact import NothingToMeasure
    from tfopt_core.commands.output import ReportFiles
    from tfopt_core.report.first_contact import render_nothing
    from tfopt_core.report.html.page import html_page, nothing_page
    from tfopt_core.report.results.answer import render_answer
    from tfopt_core.report.results.markdown import markdown_nothing, markdown_report
    from tfopt_core.report.results.summary import render_summary
    from tfopt_core.report.terminal import Terminal

    asked, files = ApplyOptions(**options), ReportFiles(json_path, html_path, markdown_path)
    files.check()
    results = conduct(asked, Terminal(quiet=quiet))
    if isinstance(results, NothingToMeasure):
        left_out = [(one.plugin, one.reason) for one in results.left_out]
        files.show(
            render_nothing(results.bound, results.left_out),
            results,
            lambda: nothing_page(results.script, results.bound, left_out),
            lambda: markdown_nothing(results.script, results.bound, left_out),
        )
        return 0 if require is None else 1
    files.show(
        render_summary(results) if verbose else render_answer(results, _recipe_of(asked)),
        results,
        lambda: html_page(results),
        lambda: markdown_report(results),
    )
    code = exit_code(results.comparison, bool(results.failed), results.interrupted, require)
    if require is not None and code == 1:
        _, statement = judged(results.comparison, require)
        click.echo(f"--require {require} is not met: {statement}", err=True)
    return code


def exit_code(comparison: Comparison, failed: bool, interrupted: bool, require: str | None) -> int:
    """Return 0 (done), 1 (requirement not met), 3 (runs failed) or 130 (interrupted)."""
    if interrupted:
        return 130
    if comparison.verdict is Verdict.NONE and failed:
        return 3
    return 0 if require is None or judged(comparison, require)[0] else 1


def _recipe_of(asked: ApplyOptions) -> str | None:
    """Return the recipe that was measured, as the user names it; None if options changed it."""
    from tfopt_core.app.first_contact import written_recipe
    from tfopt_core.app.script_target import script_of

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
