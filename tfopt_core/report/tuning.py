"""Render what `tfopt tune` prints: the trials, the winner, its proof, and what the search cost."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from tfopt_core.records.tuning import StackTrial, TuneResult
from tfopt_core.report.results.outcome import render_verdict
from tfopt_core.report.results.summary import machine_in_words
from tfopt_core.report.style.layout import Page, bullets, facts, indented, paragraph, section, words
from tfopt_core.report.style.trials import OUTCOME_COLORS, short_figures
from tfopt_core.report.style.vocabulary import settings_in_words

NOTE = (
    "80% intervals. Figures of the search choose; as the largest of many they are larger than the "
    "truth, so none of them is a gain."
)


def render_tuned(result: TuneResult) -> RenderableType:
    """Return the whole page of a search."""
    return Page((
        words(f"{result.recipe}: search for the best stack", "bold"),
        indented(facts(_facts(result))),
        *((section("Trials", _trials(result.trials), "", paragraph(NOTE, "dim")),)
          if result.trials else ()),
        *_not_tried(result),
        *_winner(result),
        *_proof(result),
        *((section("Warnings", bullets(result.warnings)),) if result.warnings else ()),
        Group("", *_closing(result)),
    ))  # fmt: skip


def _facts(result: TuneResult) -> Iterator[tuple[str, object]]:
    yield "workload", result.workload
    yield "machine", machine_in_words(result.machine)
    if result.baseline:
        yield "baseline", result.baseline
    if result.objective != "time":
        yield "objective", result.objective
    for bound in result.bounds:
        name = f"with {', '.join(bound.stack)}" if bound.stack else "a step"
        yield name, bound.sentence
    if result.begun_from:
        named = ", ".join(result.begun_from)
        yield "begins from", f"the trials of {named}, on this machine with the same code"
    if result.resumed:
        yield "resumed", f"{result.resumed} {'time' if result.resumed == 1 else 'times'}"


def _trials(trials: tuple[StackTrial, ...]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in ("trial", "beside", "figure", "outcome"):
        table.add_column(name, overflow="fold", no_wrap=name == "figure")
    for trial in trials:
        others = [one.name for one in trial.stack if one.name != trial.plugin]
        name = trial.plugin if trial.action == "add" else f"{trial.plugin} taken out"
        outcome = str(trial.outcome)
        if not trial.outcome.measured:
            outcome += f": {trial.reason}"
        if trial.replaces:
            outcome += f", in place of {', '.join(trial.replaces)}"
        table.add_row(
            words(name), words(", ".join(others) or "-"), words(short_figures(trial) or "-"),
            words(outcome, OUTCOME_COLORS[trial.outcome]),
        )  # fmt: skip
    return table


def _not_tried(result: TuneResult) -> Iterator[RenderableType]:
    """Yield the plugins that were not tried, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in result.not_tried:
        by_reason.setdefault(one.reason, []).append(one.plugin)
    if by_reason:
        lines = (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
        yield section("Not tried", bullets(lines))


def _winner(result: TuneResult) -> Iterator[RenderableType]:
    if not result.stack:
        return
    lines = (
        f"{one.name}: {settings}" if (settings := settings_in_words(one.settings)) else one.name
        for one in result.stack
    )
    yield section("Best stack", bullets(lines))


def _proof(result: TuneResult) -> Iterator[RenderableType]:
    if result.proof is not None:
        yield render_verdict(result.proof.comparison)
        ids = f"fresh pairs, measured as {result.proof.id}; tfopt report {result.proof.id} has all"
        yield indented(words(ids, "dim"))


def _closing(result: TuneResult) -> Iterator[RenderableType]:
    if result.why_ended:
        yield words(result.why_ended, "yellow")
    if result.statement:
        yield paragraph(result.statement)
    if result.written:
        yield words(f"recipe: {result.written}   (tfopt apply {result.written} measures it again)")
    elif result.why_not_written:
        yield paragraph(f"no recipe was written: {result.why_not_written}")
    yield words(f"kept as {result.id}", "dim")
