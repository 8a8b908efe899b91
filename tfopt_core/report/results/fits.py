"""Render a script's calls of `fit`, where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich import box
from rich.console import RenderableType
from rich.table import Table

from tfopt_core.records.results import FitResult, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import section, words

# A script may call `fit` in a loop: at most this many are shown.
MOST = 12


def render_fits(results: Results) -> tuple[RenderableType, ...]:
    """Return a line for each fit with the medians of both sides, empty if there is only one fit."""
    sides = results.of_variant(BASELINE), results.of_variant(FULL)
    counts = {len(run.fits) for side in sides for run in side}
    if not counts or max(counts) < 2 or not all(sides):
        return ()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in ("", "baseline", "optimized", "a step", "with the stack"):
        table.add_column(name, justify="left" if not name else "right", overflow="fold")
    judged = {run.judged for side in sides for run in side}
    shown = min(min(counts), MOST)
    for index in range(shown):
        before, after = (_fits(side, index) for side in sides)
        mark = " (judged)" if judged == {index} else ""
        table.add_row(
            words(f"{before[0].name}{mark}"),
            *(_seconds([fit.wall_seconds for fit in side]) for side in (before, after)),
            *(_seconds([fit.step_seconds for fit in side]) for side in (before, after)),
        )
    more = max(counts) - shown
    notes = [words(f"and {more} more", "dim")] if more > 0 else []
    if len(counts) > 1:
        notes.append(words("runs differ in how often they call fit", "yellow"))
    if judged == {None}:
        notes.append(words("judged together; fit = N in [workload] judges one of them", "dim"))
    return (section("Fits", table, *notes),)


def _fits(side: Sequence[RunResult], index: int) -> list[FitResult]:
    return [run.fits[index] for run in side]


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return units.seconds_text(median(known)) if known else units.NOTHING
