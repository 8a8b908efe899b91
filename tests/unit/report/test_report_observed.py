"""What observers found: a sentence and tables."""

from __future__ import annotations

import io

from rich.console import Console, Group

from tfopt_core.hooks import Effect, FoundTable
from tfopt_core.report.found_tables import render_observed


def printed(effects: dict[str, Effect]) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(Group(*render_observed(effects)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_observer_has_its_sentence_and_its_tables_without_markup() -> None:
    table = FoundTable("Whose [b]time[/b]", ("part", "ms"), (("[red]input", "1.5"),))
    text = printed({"watch": Effect.applied_as("2 steps", table)})
    assert "Observed by watch, in an extra, untimed run" in text
    for said in ("2 steps", "Whose [b]time[/b]", "[red]input", "1.5"):
        assert said in text


def test_one_that_found_nothing_says_why() -> None:
    assert "not applied: too short" in printed({"watch": Effect.not_applied("too short")})
    assert printed({}).strip() == ""
