"""Render the page of `tfopt compare`: two measurements, and the verdict on their times."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table

from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, indented, paragraph, section, words
from tfopt_core.report.style.vocabulary import VERDICT_COLORS, settings_in_words
from tfopt_core.statistics.across import Across, Side


def render_across(across: Across) -> RenderableType:
    """Return both sides and the verdict, with a warning if their conditions differed."""
    title = words("B's stack against A's", "bold")
    if across.workload:
        title.append_text(words(" on ", "dim")).append_text(words(across.workload, "bold"))
    verdict = [paragraph(across.statement, f"bold {VERDICT_COLORS[across.verdict]}")]
    if across.warning:
        verdict.append(paragraph(across.warning))
    return Page((title, "", indented(_sides(across)), section("Verdict", *verdict)))


def _sides(across: Across) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in ("", "A", "B"):
        table.add_column(name, overflow="fold")
    cells = [dict(_facts(side)) for side in (across.a, across.b)]
    for name in cells[0]:
        table.add_row(words(name, "dim"), *(paragraph(side[name]) for side in cells))
    return table


def _facts(side: Side) -> Iterator[tuple[str, str]]:
    yield "id", side.id if side.name == side.id else f"{side.id}\nfrom {side.name}"
    yield "recipe", side.recipe
    yield (
        "stack",
        "\n".join(
            f"{name}{'' if name in side.applied else ' (not applied)'}"
            f"{': ' if settings_in_words(settings) else ''}{settings_in_words(settings)}"
            for name, settings in side.resolved.items()
        ),
    )
    yield "baseline", f"{units.seconds_text(side.baseline_seconds)} (median)"
    yield "own verdict", side.comparison.verdict.label
    yield "speedup", _speedup(side)
    yield "quality", _quality(side)


def _speedup(side: Side) -> str:
    figures = side.comparison
    if figures.speedup is None or figures.low is None or figures.high is None:
        return units.NOTHING
    low, high = (units.ratio_text(end).removesuffix("x") for end in (figures.low, figures.high))
    confidence = "" if figures.confidence is None else f"{figures.confidence:.0%} interval "
    return (
        f"{units.ratio_text(figures.speedup)} ({confidence}{low} to {high}, {figures.pairs} pairs)"
    )


def _quality(side: Side) -> str:
    quality = side.comparison.quality
    if quality is None:
        return units.NOTHING
    if quality.baseline is None or quality.optimized is None:
        return quality.verdict
    before, after = (units.metric_text(value) for value in (quality.baseline, quality.optimized))
    return f"{quality.metric} {before} -> {after}, {quality.verdict}"
