"""Render the page of `tfopt compare`: two measurements, and the verdict on their times."""

from __future__ import annotations

from rich.console import RenderableType

from tfopt_core.report.style.layout import Page, facts, indented, paragraph, section, words
from tfopt_core.report.style.vocabulary import VERDICT_COLORS
from tfopt_core.statistics.across import Across


def render_across(across: Across) -> RenderableType:
    """Return both ids with the statements of their own verdicts, and the verdict on the two."""
    sides = zip("AB", across.ids, across.own_statements, strict=True)
    both = facts((name, f"{id_}\n{statement}") for name, id_, statement in sides)
    verdict = paragraph(across.statement, f"bold {VERDICT_COLORS[across.verdict]}")
    title = words("B's stack against A's", "bold")
    return Page((title, "", indented(both), section("Verdict", verdict)))
