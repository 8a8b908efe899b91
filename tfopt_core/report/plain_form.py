"""Render the lines that give a gain without tfopt, as `tfopt apply train.py` prints them last."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import RenderableType

from tfopt_core.records.plain_form import ChangedLines, PlainForm
from tfopt_core.report.style.layout import Page, paragraph, section, words

# More lines are not read on a screen.
MOST_LINES = 12


def render_plain_form(form: PlainForm) -> RenderableType:
    """Return the lines to change, or the command that writes them, and how to train with tfopt."""
    return Page((section("To keep this gain", *_ways(form)),))


def _ways(form: PlainForm) -> Iterator[RenderableType]:
    recipe = shlex.quote(form.recipe)
    if form.why_not:
        yield paragraph(f"there is no plain form of it: {form.why_not}")
    elif form.left_out:
        for plugin, why in form.left_out:
            yield paragraph(f"{plugin} has no form without tfopt: {why}")
    elif not form.changes:
        yield paragraph(f"{form.file} needs no change: what was gained lies outside of it")
    elif form.added <= MOST_LINES:
        yield paragraph(f"without tfopt, in {form.file}:")
        for change in form.changes:
            yield from _change(change)
    else:
        yield paragraph(
            f"without tfopt: {form.added} lines of plain TensorFlow, which "
            f"tfopt export {recipe} -o FILE.py writes into a copy of {form.file}"
        )
    yield paragraph(f"with tfopt: tfopt train {recipe}")


def _change(change: ChangedLines) -> Iterator[RenderableType]:
    yield words(f"  line {change.line}", "dim")
    for line in change.removed:
        yield paragraph(f"  - {line}", "red")
    for line in change.added:
        yield paragraph(f"  + {line}", "green")
