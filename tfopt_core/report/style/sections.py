"""The sections of a report as plain data, and how the console shows them. Markdown and HTML have
writers of their own (`results/markdown.py`, `html/page.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.report.style.console import plain_lines
from tfopt_core.report.style.layout import Items, bullets, indented, paragraph, section, words

# Longer names of plugins are folded, to leave room for what is said of them.
NAME_WIDTH = 26
MARKS = {"✓": "green", "✗": "yellow", "-": "yellow", "!": "yellow", "?": "dim"}


@attrs.frozen
class Line:
    """A sentence; `color` is "" for none, "dim", or a color of `PALETTE`."""

    text: str
    color: str = ""
    headline: bool = False


@attrs.frozen
class SectionPart:
    """What stands below a title; a page passes over kinds that it does not know."""

    @property
    def kind(self) -> str:
        """The name by which the template of the HTML page knows it."""
        return type(self).__name__.lower()


@attrs.frozen
class Lines(SectionPart):
    """Sentences, one below the other."""

    lines: tuple[Line, ...]


@attrs.frozen
class Bullets(SectionPart):
    """A list of sentences."""

    items: tuple[str, ...]


@attrs.frozen
class Fact:
    """A name and what is said of it, with settings in words and one of `MARKS`."""

    name: str
    text: str
    details: tuple[str, ...] = ()
    mark: str = ""


@attrs.frozen
class Facts(SectionPart):
    """Names and what is said of each. `head` names the columns, for a page that has a heading for
    each: empty for names that say themselves what they are."""

    rows: tuple[Fact, ...]
    head: tuple[str, ...] = ()


@attrs.frozen
class TablePart(SectionPart):
    """Groups of rows, whose first columns, `text_columns`, are text and whose others are figures.

    The console has no room for the last `roomy` columns.
    """

    head: tuple[str, ...]
    groups: tuple[tuple[tuple[str, ...], ...], ...]
    title: str = ""
    roomy: int = 0
    text_columns: int = 1


@attrs.frozen
class Output(SectionPart):
    """The last lines of a process, below what they are; only the console shows them."""

    title: str
    text: str


@attrs.frozen
class Section:
    """A part of a report: a title, "" for none, and what stands below it. Only a verdict has a
    `color`."""

    title: str
    blocks: tuple[SectionPart, ...]
    color: str = ""


def render_section(part: Section) -> RenderableType:
    """Return a section for the console."""
    body = [shown for block in part.blocks for shown in render_block(block)]
    if part.title:
        return section(part.title, *body)
    return Group("", *map(indented, body))


def render_block(block: SectionPart) -> Iterator[RenderableType]:
    """Yield a block for the console."""
    match block:
        case Lines():
            for line in block.lines:
                yield paragraph(line.text, f"{'bold ' * line.headline}{line.color}".strip())
        case Bullets():
            yield bullets(block.items)
        case Facts():
            yield _facts(block)
        case TablePart():
            if block.title:
                yield Group("", words(block.title, "dim"))
            yield _table(block)
        case Output():
            if block.title:
                yield words(block.title, "dim")
            if block.text:
                yield indented(Text(block.text, style="dim", overflow="fold"))


def _facts(block: Facts) -> Table:
    marked = any(row.mark for row in block.rows)
    grid = Table.grid(padding=(0, 2, 0, 0))
    if marked:
        grid.add_column(width=1)
    grid.add_column(overflow="fold", max_width=NAME_WIDTH if block.head else None)
    grid.add_column(overflow="fold")
    for row in block.rows:
        shown: RenderableType = paragraph(row.text)
        if row.details:
            shown = Group(shown, Items(row.details, style="dim"))
        mark = [Text(row.mark, style=MARKS.get(row.mark, ""))] if marked else []
        grid.add_row(*mark, words(row.name, "" if block.head else "dim"), shown)
    return grid


def _table(block: TablePart) -> Table:
    shown = len(block.head) - block.roomy
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for index, name in enumerate(block.head[:shown]):
        side: JustifyMethod = "left" if index < block.text_columns else "right"
        table.add_column(words(name), justify=side, overflow="fold")
    for group in block.groups:
        for row in group:
            table.add_row(*map(words, row[:shown]))
        table.add_section()
    return table


def last_lines(text: str | None, most: int = 10) -> str:
    """Return the last lines of an output that are not empty."""
    return "\n".join([line for line in plain_lines(text or "") if line][-most:])
