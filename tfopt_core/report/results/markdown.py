"""Write the sections of a report as GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfopt_core.diagnosis.draft import NothingToMeasure
from tfopt_core.report.results.sections import nothing_sections, sections_of
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import Bullets, Facts, Line, Section, TablePart
from tfopt_core.statistics.results import Results
from tfopt_core.version import __version__

# What begins markup in GitHub's Markdown anywhere in a line; an underscore within a word is none.
_MARKS = re.compile(
    r"([\\`*\[\]|~@#$]|(?<![^\W_])_|_(?![^\W_])|:(?=[\w/+-])|(?<=www)\.)", re.IGNORECASE
)
# What does so at the start of a line only: a list, a quotation, a rule or a heading's underline.
_AT_START = re.compile(r"^(\d{0,9})([.)](?=\s|$)|[-+=](?!\d)|>)")


# The sections of the page, the verdict first.
PARTS = (
    "verdict", "addition", "figures", "attribution", "plugins", "failures", "warnings", "findings",
    "advice",
)  # fmt: skip


def markdown_report(results: Results) -> str:
    """Return the page in GitHub's Markdown: verdict, figures, what each plugin contributes."""
    on = f" on {escaped(results.workload)}" if results.workload else ""
    sections = sections_of(results)
    [facts] = sections["facts"].blocks
    assert isinstance(facts, Facts)
    known = escaped("; ".join(f"{fact.name}: {fact.text}" for fact in facts.rows))
    runs = escaped(f"{len(results.runs)} runs, {results.id}, tfopt {__version__}")
    parts = [sections[name] for name in PARTS if name in sections]
    return _page(f"{escaped(results.recipe)}{on}", parts, known, runs)


def markdown_nothing(nothing: NothingToMeasure) -> str:
    """Return the page of a script on which nothing was worth measuring."""
    return _page(escaped(nothing.script), nothing_sections(nothing))


def _page(title: str, parts: Sequence[Section], *footer: str) -> str:
    texts = (text for part in parts for text in _section(part))
    return "\n\n".join([f"## {title}", *texts, *footer]) + "\n"


def escaped(text: object) -> str:
    """Return text from any source as one line that Markdown shows as it is."""
    line = plain(text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return _AT_START.sub(r"\1\\\2", _MARKS.sub(r"\\\1", line))


def _section(part: Section) -> Iterator[str]:
    # the verdict needs no title: its headline says so
    if part.title and not part.color:
        yield f"### {escaped(part.title)}"
    for block in part.blocks:
        yield from _block(block)


def _block(block: RenderableType) -> Iterator[str]:
    match block:
        case Line():
            yield f"**{escaped(block.text)}**" if block.headline else escaped(block.text)
        case Bullets():
            yield "\n".join(f"- {escaped(item)}" for item in block.items)
        case Facts() if block.head:
            rows = [(row.name, row.text, ", ".join(row.details)) for row in block.rows]
            yield _table(block.head, rows, "---")
        case Facts():
            yield "\n".join(f"- {escaped(row.name)}: {escaped(row.text)}" for row in block.rows)
        case TablePart():
            yield _table(block.head, [row for group in block.groups for row in group], "---:")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], rule: str) -> str:
    """Return a table; its first column is text, and the rule aligns the others."""
    cells = [[escaped(cell) for cell in row[: len(head)]] for row in rows]
    lines = [head, ["---", *(rule for _ in head[1:])], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
