"""Render what observers found: a line, and their tables."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from tfopt_core.hooks import Effect, FoundTable
from tfopt_core.report.style.layout import section, words


def render_observed(effects: Mapping[str, Effect]) -> tuple[RenderableType, ...]:
    """Return a section for each observer, with the sentence and the tables of its effect."""
    return tuple(
        section(f"Observed by {name}, in an extra, untimed run", _found(effect))
        for name, effect in effects.items()
    )


def _found(effect: Effect) -> RenderableType:
    sentence = effect.detail if effect.applied else f"not applied: {effect.detail}"
    return Group(words(sentence), *render_tables(effect))


def render_tables(effect: Effect) -> tuple[RenderableType, ...]:
    """Return the tables of an effect, each below its title."""
    return tuple(Group("", words(table.title, "dim"), _table(table)) for table in effect.tables)


def _table(found: FoundTable) -> Table:
    """Return a table whose first column is text and whose others are figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for index, column in enumerate(found.columns):
        table.add_column(words(column), justify="right" if index else "left", overflow="fold")
    for row in found.rows:
        table.add_row(*(words(cell) for cell in row))
    return table
