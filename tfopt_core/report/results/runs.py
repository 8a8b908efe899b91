"""Render the list of measurements, one that was never concluded, and the fits of a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median

import attrs
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.records.results import FitResult, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, facts, grid, indented, section, words
from tfopt_core.report.style.vocabulary import VERDICT_COLORS, variant_in_words
from tfopt_core.store.overview import Interim, Listing, Overview

# Widths that keep an id, and a speedup with its interval, on one line. The rest goes to the
# recipe; if that is too little, every column is folded.
WIDTHS = {"id, when": 20, "recipe": None, "verdict": 20, "measured": 8, "state": 11}
TAKEN = sum(width or 0 for width in WIDTHS.values()) + 2 * (len(WIDTHS) - 1)
LEAST_LEFT = 10
UNFINISHED = "begun and never concluded: it was killed, or is still under way"


def render_runs(listing: Listing) -> RenderableType:
    """Return two lines for each measurement, the newest last, or that there is none."""
    if not listing.measurements:
        text = f'nothing was measured yet: there is no measurement in "{listing.store}"'
        return Page((words(text),))
    hint = words("tfopt report ID prints one again; tfopt compare A B compares two stacks", "dim")
    unfinished = any(overview.state == "unfinished" for overview in listing.measurements)
    note = (words(f"unfinished: {UNFINISHED}", "dim"),) if unfinished else ()
    damages = (
        words(f"damaged: of {overview.id} {overview.damage}; the others can be read", "yellow")
        for overview in listing.measurements
        if overview.damage is not None
    )
    return Page((_Rows(listing.measurements), Group("", *note, *damages, hint)))


@attrs.frozen
class _Rows:
    """The table, whose column widths depend on the available width."""

    measurements: tuple[Overview, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        left = options.max_width - TAKEN
        for name, width in WIDTHS.items():
            most = None if left < LEAST_LEFT else width or left
            table.add_column(name, overflow="fold", max_width=most)
        for overview in self.measurements:
            table.add_row(*_cells(overview))
        yield table


def _cells(overview: Overview) -> tuple[RenderableType, ...]:
    when = words(when_in_words(overview.created_at), "dim")
    verdict = overview.verdict
    shown = words("-", "dim")
    if verdict is not None:
        shown = words(verdict.label, VERDICT_COLORS[verdict])
    state = words(overview.state, "" if overview.state == "finished" else "yellow")
    return (
        Group(words(overview.id), when),
        Group(words(overview.recipe), words(overview.workload, "dim")),
        Group(shown, words(speedup_in_words(overview))),
        Group(_counted(overview.pairs, "pair"), _counted(overview.runs, "run")),
        state,
    )


def when_in_words(created_at: str) -> str:
    """Return a time as `2026-11-21 13:04`, local; other text unchanged."""
    try:
        return f"{datetime.fromisoformat(created_at).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return created_at


def speedup_in_words(overview: Overview) -> str:
    """Return `1.91x (1.72 to 2.11)`, or "" without a speedup."""
    if overview.speedup is None or overview.low is None or overview.high is None:
        return ""
    return units.ratio_with_interval(overview.speedup, overview.low, overview.high)


def _counted(count: int, what: str) -> Text:
    return Text(f"{count} {what}" if count == 1 else f"{count} {what}s")


def render_interim(interim: Interim) -> RenderableType:
    """Return the runs of a measurement without a verdict, a line each."""
    overview = interim.measurement
    title = words(overview.recipe, "bold")
    if overview.workload:
        title.append_text(words(" on ", "dim")).append_text(words(overview.workload, "bold"))
    known = (("id", overview.id), ("begun", when_in_words(overview.created_at)))
    rows = grid((_run(run) for run in interim.runs), first_width=26)
    body = rows if interim.runs else words("none was finished")
    verdict = words(f"unfinished: {UNFINISHED}, so there is no verdict", "bold yellow")
    return Page((title, indented(facts(known)), section("Runs", body), section("Verdict", verdict)))


def _run(run: RunResult) -> tuple[RenderableType, ...]:
    took = "" if run.wall_seconds is None else units.seconds_text(run.wall_seconds)
    text = took if run.ok else f"{run.status}: {(run.error or 'no cause is known').strip()}"
    return words(variant_in_words(run.variant)), Text(f"pair {run.round + 1}"), words(text)


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
