"""Layout of every page: headings, facts, bullets, indents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tfopt_core.report.style.console import plain, plain_lines

# Wider text is hard to read, even on a wide terminal.
PAGE_WIDTH = 100


def words(text: object, style: str = "") -> Text:
    """Return text from any source as one line, without markup or control characters."""
    return Text(plain(text), style=style, overflow="fold")


def paragraph(text: object, style: str = "") -> Text:
    """Return text of one or more lines, each without control characters."""
    return Text("\n".join(plain_lines(text)), style=style, overflow="fold")


def indented(body: RenderableType, by: int = 2) -> Padding:
    """Return the body, indented."""
    return Padding(body, (0, 0, 0, by))


def section(title: object, *body: RenderableType) -> Group:
    """Return a blank line, a bold title, and the body below it, indented."""
    return Group("", words(title, "bold"), *(indented(part) for part in body))


def grid(
    rows: Iterable[Sequence[RenderableType]],
    first_width: int | None = None,
    least_width: int | None = None,
) -> Table:
    """Return aligned columns without borders.

    :param first_width: the most that the first column may take; a longer word is folded.
    :param least_width: the least that it takes, so that several grids share their alignment.
    """
    rows = [tuple(row) for row in rows]
    table = Table.grid(padding=(0, 2, 0, 0))
    for index in range(max((len(row) for row in rows), default=0)):
        first = index == 0
        table.add_column(
            overflow="fold",
            max_width=first_width if first else None,
            min_width=least_width if first else None,
        )
    for row in rows:
        table.add_row(*row)
    return table


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a grid of dim names and their values."""
    return grid((words(name, "dim"), paragraph(value)) for name, value in pairs)


def bullets(items: Iterable[object]) -> Table:
    """Return one bullet for each item."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for item in items:
        table.add_row("-", paragraph(item))
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
class Page:
    """A whole output, at most `PAGE_WIDTH` wide and without trailing blanks."""

    parts: tuple[RenderableType, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        inner = options.update(width=min(PAGE_WIDTH, options.max_width), height=None)
        for line in console.render_lines(Group(*self.parts), inner, pad=False):
            yield from _trimmed(line)
            yield Segment.line()


def _trimmed(line: list[Segment]) -> list[Segment]:
    kept = list(line)
    while kept and not kept[-1].control and not kept[-1].text.strip():
        kept.pop()
    if kept and not kept[-1].control:
        kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style)
    return kept
