"""Render the pages of measurements: all figures of one, the list of them, one that was never
concluded, and the verdict on two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.report.results.sections import sections_of
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import (
    Fact,
    Facts,
    Page,
    grid,
    indented,
    paragraph,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import color_of, variant_in_words
from tfopt_core.statistics.across import Across
from tfopt_core.statistics.results import Results
from tfopt_core.statistics.runs import RunResult
from tfopt_core.store.decoding import Interim, Overview

# Widths that keep an id, and a speedup with its interval, on one line. The rest goes to the
# recipe; if that is too little, every column is folded.
WIDTHS = {"id, when": 20, "recipe": None, "verdict": 20, "measured": 8, "state": 11}
TAKEN = sum(width or 0 for width in WIDTHS.values()) + 2 * (len(WIDTHS) - 1)
LEAST_LEFT = 10
UNFINISHED = "begun and never concluded: it was killed, or is still under way"


def render_summary(results: Results) -> RenderableType:
    """Return the whole page: what was measured, the figures, the plugins, the verdict, advice."""
    sections = sections_of(results)
    facts = map(indented, sections.pop("facts").blocks)
    title = measured(results.recipe, results.workload)
    return Page((title, *facts, *sections.values(), "", *_kept(results)))


def measured(recipe: str, workload: str) -> Text:
    """Return `quickstart on fashion-mnist` as a title."""
    title = words(recipe, "bold")
    if workload:
        title.append_text(words(" on ", "dim")).append_text(words(workload, "bold"))
    return title


def _kept(results: Results) -> Iterator[RenderableType]:
    """Yield what was stored."""
    if results.interrupted:
        text = "interrupted: what had been measured until then is kept; --resume goes on with it"
        yield words(text, "yellow")
    if results.saved_model:
        yield words(f"model saved to {results.saved_model}")
    yield words(f"{took(results)}; all samples kept as {plain(results.id)}", "dim")


def took(results: Results) -> str:
    """Return `8 runs in 15 min 31 s, 14.2 s of it set-up`."""
    text = f"{units.counted(len(results.runs), 'run')} in {units.seconds_text(results.seconds)}"
    setup = results.setup_seconds
    return f"{text}, {units.seconds_text(setup)} of it set-up" if setup else text


def render_runs(store: Path, measurements: tuple[Overview, ...]) -> RenderableType:
    """Return two lines for each measurement, the newest last, or that there is none."""
    if not measurements:
        text = f'nothing was measured yet: there is no measurement in "{store}"'
        return Page((words(text),))
    hint = words("tfopt report ID prints one again; tfopt compare A B compares two stacks", "dim")
    unfinished = any(overview.state == "unfinished" for overview in measurements)
    note = (words(f"unfinished: {UNFINISHED}", "dim"),) if unfinished else ()
    damages = (
        words(f"damaged: of {overview.id} {overview.damage}; the others can be read", "yellow")
        for overview in measurements
        if overview.damage is not None
    )
    return Page((_Rows(measurements), "", *note, *damages, hint))


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
    when = words(units.when_text(overview.created_at), "dim")
    verdict = overview.verdict
    shown = words("-", "dim")
    if verdict is not None:
        shown = words(verdict.label, color_of(verdict))
    speedup = ""
    if overview.speedup is not None and overview.low is not None and overview.high is not None:
        speedup = units.ratio_with_interval(overview.speedup, overview.low, overview.high)
    counts = (units.counted(overview.pairs, "pair"), units.counted(overview.runs, "run"))
    state = words(overview.state, "" if overview.state == "finished" else "yellow")
    return (
        Group(words(overview.id), when),
        Group(words(overview.recipe), words(overview.workload, "dim")),
        Group(shown, words(speedup)),
        Group(*map(Text, counts)),
        state,
    )


def render_interim(interim: Interim) -> RenderableType:
    """Return the runs of a measurement without a verdict, a line each."""
    overview = interim.measurement
    title = measured(overview.recipe, overview.workload)
    known = (Fact("id", overview.id), Fact("begun", units.when_text(overview.created_at)))
    rows = grid((_run(run) for run in interim.runs), first_width=26)
    body = rows if interim.runs else words("none was finished")
    verdict = words(f"unfinished: {UNFINISHED}, so there is no verdict", "bold yellow")
    return Page((title, indented(Facts(known)), section("Runs", body), section("Verdict", verdict)))


def _run(run: RunResult) -> tuple[RenderableType, ...]:
    took = "" if run.wall_seconds is None else units.seconds_text(run.wall_seconds)
    text = took if run.ok else f"{run.status}: {(run.error or 'no cause is known').strip()}"
    return variant_in_words(run.variant), f"pair {run.round + 1}", text


def render_across(across: Across) -> RenderableType:
    """Return both ids with the statements of their own verdicts, and the verdict on the two."""
    sides = zip("AB", across.ids, across.own_statements, strict=True)
    both = Facts(Fact(name, f"{id_}\n{statement}") for name, id_, statement in sides)
    verdict = paragraph(across.statement, f"bold {color_of(across.verdict)}")
    title = words("B's stack against A's", "bold")
    return Page((title, "", indented(both), section("Verdict", verdict)))
