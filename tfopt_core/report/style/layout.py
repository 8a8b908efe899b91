"""Layout of every page: texts, grids, and the parts of a report as plain data.

The console shows each part; Markdown and HTML have writers of their own (`results/markdown.py`,
`html/page.py`), which pass over kinds of parts that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tfopt_core.report.style.console import plain, plain_lines

# Wider text is hard to read, even on a wide terminal.
PAGE_WIDTH = 100
# Longer names of plugins are folded, to leave room for what is said of them.
NAME_WIDTH = 26
MARKS = {"✓": "green", "✗": "yellow", "-": "yellow", "!": "yellow", "?": "dim"}


def words(text: object, style: str = "") -> Text:
    """Return text from any source as one line, without markup or control characters."""
    return Text(plain(text), style=style, overflow="fold")


def paragraph(text: object, style: str = "") -> Text:
    """Return text of one or more lines, each without control characters."""
    return Text("\n".join(plain_lines(text)), style=style, overflow="fold")


def last_lines(text: str | None) -> Text:
    """Return the last ten lines of an output that are not empty."""
    return paragraph("\n".join([line for line in plain_lines(text or "") if line][-10:]), "dim")


def indented(body: RenderableType) -> Padding:
    """Return the body, indented."""
    return Padding(body, (0, 0, 0, 2))


def grid(
    rows: Iterable[Sequence[RenderableType]],
    first_width: int | None = None,
    least_width: int | None = None,
    gap: int = 2,
) -> Table:
    """Return aligned columns without borders; a text is one line from any source.

    :param first_width: the most that the first column may take; a longer word is folded.
    :param least_width: the least that it takes, so that several grids share their alignment.
    """
    table = Table.grid(padding=(0, gap, 0, 0))
    table.add_column(overflow="fold", max_width=first_width, min_width=least_width)
    for row in rows:
        while len(table.columns) < len(row):
            table.add_column(overflow="fold")
        table.add_row(*(words(cell) if isinstance(cell, str) else cell for cell in row))
    return table


@attrs.frozen
class Items:
    """Items behind each other, in lines that break between them: a name stays with its value.

    Only an item that is wider than a line is broken.
    """

    items: tuple[str, ...]
    separator: str = ", "
    style: str = ""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return words(self.separator.join(self.items)).__rich_measure__(console, options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        lines: list[str] = []
        for number, item in enumerate(map(plain, self.items), 1):
            text = item + (self.separator if number < len(self.items) else "")
            if lines and cell_len(lines[-1] + text.rstrip()) <= options.max_width:
                lines[-1] += text
            else:
                lines.append(text)
        yield Text("\n".join(line.rstrip() for line in lines), self.style, overflow="fold")


@attrs.frozen
class Line:
    """A sentence; `color` is "" for none, "dim", or a color of `PALETTE`."""

    text: str
    color: str = ""
    headline: bool = False

    def __rich__(self) -> RenderableType:
        return paragraph(self.text, f"{'bold ' * self.headline}{self.color}".strip())


@attrs.frozen
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...] = attrs.field(converter=tuple[str, ...])

    def __len__(self) -> int:
        return len(self.items)

    def __rich__(self) -> RenderableType:
        return grid((("-", paragraph(item)) for item in self.items), gap=1)


@attrs.frozen
class Fact:
    """A name and what is said of it, with settings in words and one of `MARKS`."""

    name: str
    text: str
    details: tuple[str, ...] = ()
    mark: str = ""


@attrs.frozen
class Facts:
    """Names and what is said of each. `head` names the columns, for a page that has a heading for
    each: empty for names that say themselves what they are."""

    rows: tuple[Fact, ...] = attrs.field(converter=tuple[Fact, ...])
    head: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __rich__(self) -> RenderableType:
        marked = any(row.mark for row in self.rows)
        table = Table.grid(padding=(0, 2, 0, 0))
        if marked:
            table.add_column(width=1)
        table.add_column(overflow="fold", max_width=NAME_WIDTH if self.head else None)
        table.add_column(overflow="fold")
        for row in self.rows:
            shown: RenderableType = paragraph(row.text)
            if row.details:
                shown = Group(shown, Items(row.details, style="dim"))
            mark = [Text(row.mark, style=MARKS.get(row.mark, ""))] if marked else []
            table.add_row(*mark, words(row.name, "" if self.head else "dim"), shown)
        return table


@attrs.frozen
class TablePart:
    """Groups of rows, whose first columns, `text_columns`, are text and whose others are figures.

    The console has no room for the last `roomy` columns.
    """

    head: tuple[str, ...]
    groups: tuple[tuple[tuple[str, ...], ...], ...]
    title: str = ""
    roomy: int = 0
    text_columns: int = 1

    def __rich__(self) -> RenderableType:
        shown = len(self.head) - self.roomy
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
        for index, name in enumerate(self.head[:shown]):
            side: JustifyMethod = "left" if index < self.text_columns else "right"
            table.add_column(words(name), justify=side, overflow="fold")
        for group in self.groups:
            for row in group:
                table.add_row(*map(words, row[:shown]))
            table.add_section()
        return Group("", words(self.title, "dim"), table) if self.title else table


@attrs.frozen
class Section:
    """A part of a page: a title, "" for none, and what stands below it, indented. Without that it
    is not shown. Only a verdict has a `color`."""

    title: str
    blocks: tuple[Any, ...]
    color: str = ""

    def __rich__(self) -> RenderableType:
        head = ["", words(self.title, "bold")] if self.title else [""]
        return Group(*head, *map(indented, self.blocks)) if self.blocks else Group()


def section(title: str, *blocks: Any, color: str = "") -> Section:
    """Return a section of these blocks, without those that are None or hold nothing."""
    return Section(title, tuple(filter(None, blocks)), color)


def listed(title: str, items: Iterable[str]) -> Section:
    """Return a section with a bullet for each item, which is not shown without any."""
    return section(title, Bullets(items))


@attrs.frozen
class Page:
    """A whole output, at most `PAGE_WIDTH` wide and without trailing blanks."""

    parts: tuple[RenderableType, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        inner = options.update(width=min(PAGE_WIDTH, options.max_width), height=None)
        for line in console.render_lines(Group(*self.parts), inner, pad=False):
            while line and not line[-1].control and not line[-1].text.strip():
                line.pop()
            if line and not line[-1].control:
                line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
            yield from (*line, Segment.line())
