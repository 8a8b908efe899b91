"""Render the page of `tfopt compare`: two measurements, and the verdict on their stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from tfopt_core.report.results.effects import NAME_WIDTH
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, bullets, grid, indented, paragraph, section, words
from tfopt_core.report.style.vocabulary import VERDICT_COLORS, setting_in_words, settings_in_words
from tfopt_core.statistics.across.contrast import Across, PluginDifference, Side


def render_across(across: Across) -> RenderableType:
    """Return both sides, the plugins that differ, the verdict, and the caveats."""
    title = words("B's stack against A's", "bold")
    if across.workload:
        title.append_text(words(" on ", "dim")).append_text(words(across.workload, "bold"))
    notes = (section("Notes", bullets(across.notes)),) if across.notes else ()
    return Page((
        title, "", indented(_sides(across)), section("Plugins that differ", _plugins(across)),
        section(
            "Verdict",
            paragraph(across.statement, f"bold {VERDICT_COLORS[across.verdict]}"),
            paragraph(across.quality.statement, "red" if _is_worse(across) else ""),
        ),
        *notes,
    ))  # fmt: skip


def _is_worse(across: Across) -> bool:
    return across.quality.high is not None and across.quality.high < 0


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
        ", ".join(
            name if name in side.applied else f"{name} (not applied)" for name in side.resolved
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
    quality = side.quality
    if quality is None:
        return units.NOTHING
    if quality.baseline is None or quality.optimized is None:
        return quality.verdict
    before, after = (units.metric_text(value) for value in (quality.baseline, quality.optimized))
    return f"{quality.metric} {before} -> {after}, {quality.verdict}"


def _plugins(across: Across) -> RenderableType:
    rows = [(words(item.plugin), words(_difference(item))) for item in across.plugins]
    if across.same_recipe:
        rows.insert(0, (words("recipe", "dim"), words("the same recipe measured twice")))
    if not across.same_order:
        rows.append(
            (words("order", "dim"), words("the stacks differ in the order of their plugins"))
        )
    if not rows:
        return words("none")
    return grid(rows, NAME_WIDTH)


def _difference(item: PluginDifference) -> str:
    if item.a is None or item.b is None:
        label, settings = ("A", item.a) if item.b is None else ("B", item.b)
        shown = settings_in_words(settings or {})
        return f"in {label} only: {shown}" if shown else f"in {label} only"
    return "; ".join(_settings(item.a, item.b))


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*a, *b)):
        if a.get(key) != b.get(key):
            here, there = (setting_in_words(side.get(key)) for side in (a, b))
            yield f"{key} = {here} in A, {there} in B"
