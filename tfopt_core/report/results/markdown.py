"""Render a measurement as Markdown: verdict, figures, what each plugin contributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfopt_core.records.results import Results
from tfopt_core.report.results.effects import contributions, plugin_lines
from tfopt_core.report.results.figures import figure_groups
from tfopt_core.report.results.outcome import (
    addition_lines,
    addition_title,
    failures,
    verdict_lines,
)
from tfopt_core.report.results.summary import fact_rows, figures_caption
from tfopt_core.report.style.console import plain
from tfopt_core.version import __version__

# What begins markup in GitHub's Markdown anywhere in a line; an underscore within a word is none.
_MARKS = re.compile(
    r"([\\`*\[\]|~@#$]|(?<![^\W_])_|_(?![^\W_])|:(?=[\w/+-])|(?<=www)\.)", re.IGNORECASE
)
# What does so at the start of a line only: a list, a quotation, a rule or a heading's underline.
_AT_START = re.compile(r"^(\d{0,9})([.)](?=\s|$)|[-+=](?!\d)|>)")


def markdown_report(results: Results) -> str:
    """Return the page in GitHub's Markdown."""
    on = f" on {escaped(results.workload)}" if results.workload else ""
    parts = [
        f"## {escaped(results.recipe)}{on}",
        *_verdict(results),
        *_addition(results),
        *_figures(results),
        *_attribution(results),
        *_plugins(results),
        *_listed("Warnings", results.warnings),
        *_listed("What to try next", results.next_steps),
        _footer(results),
    ]
    return "\n\n".join(parts) + "\n"


def markdown_nothing(script: str, bound: str, left_out: Sequence[tuple[str, str]]) -> str:
    """Return the page of a script on which nothing was worth measuring.

    :param bound: what bounds a step, in a sentence.
    :param left_out: the plugins that were left out, each with its reason.
    """
    parts = [
        f"## {escaped(script)}",
        "**nothing was measured: no plugin seems to save time here**",
        escaped(bound),
        *_listed("Left out", [f"{name}: {why}" for name, why in left_out]),
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: object) -> str:
    """Return text from any source as one line that Markdown shows as it is."""
    line = plain(text).strip().replace("&", "&amp;").replace("<", "&lt;")
    return _AT_START.sub(r"\1\\\2", _MARKS.sub(r"\\\1", line))


def _verdict(results: Results) -> Iterator[str]:
    first, *others = verdict_lines(results.comparison)
    yield f"**{escaped(first.text)}**"
    yield from (escaped(line.text) for line in others)


def _addition(results: Results) -> Iterator[str]:
    if results.addition is not None:
        yield f"### {escaped(addition_title(results.addition))}"
        yield from (escaped(line.text) for line in addition_lines(results.addition))


def _figures(results: Results) -> Iterator[str]:
    groups = figure_groups(results)
    if groups:
        rows = [
            (row.label, row.baseline, row.optimized, row.gain, row.interval)
            for group in groups
            for row in group
        ]
        yield _table(("", "baseline", "optimized", "gain", "interval"), rows)
        yield escaped(figures_caption(results))


def _attribution(results: Results) -> Iterator[str]:
    rows = [(item.name, item.text) for item in contributions(results)]
    if rows:
        yield "### What each plugin contributes"
        yield _table(("plugin", "share"), rows, figures=False)


def _plugins(results: Results) -> Iterator[str]:
    rows = [(line.name, line.text, ", ".join(line.settings)) for line in plugin_lines(results)]
    if rows:
        yield "### Plugins"
        yield _table(("plugin", "effect", "settings"), rows, figures=False)
    if results.failed:
        yield from _listed(*failures(results))


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"### {escaped(title)}"
        yield "\n".join(f"- {escaped(item)}" for item in items)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], figures: bool = True) -> str:
    """Return a table; its first column is text, the others are figures or text as well."""
    rule = ["---", *("---:" if figures else "---" for _ in head[1:])]
    lines = [head, rule, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _footer(results: Results) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in fact_rows(results))
    runs = f"{len(results.runs)} runs, {results.id}, tfopt {__version__}"
    return f"{escaped(facts)}\n\n{escaped(runs)}"
