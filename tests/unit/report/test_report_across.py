"""Two measurements, and the verdict on their stacks."""

from __future__ import annotations

import attrs
import pytest
from support.report_results import show

from tfopt_core.records.verdict import Verdict
from tfopt_core.report.results.as_json import to_json
from tfopt_core.report.results.pages import render_across
from tfopt_core.statistics.across import Across

FOUND = Across(
    ids=("20261120-090000-aa01", "20261121-100000-bb02"), verdict=Verdict.FASTER,
    own_statements=("faster: 1.25x (95% interval 1.24 to 1.26, 4 pairs)", "faster but worse: ..."),
    speedup=1.2, low=1.19, high=1.21, confidence=0.95,
    statement="B's stack is faster than A's: 1.20x (95% interval 1.19 to 1.21)",
)  # fmt: skip


def test_both_own_verdicts_stand_above_the_verdict_on_the_two() -> None:
    flowing = " ".join(show(render_across(FOUND)).split())
    assert flowing == (
        f"B's stack against A's A {FOUND.ids[0]} {FOUND.own_statements[0]} "
        f"B {FOUND.ids[1]} {FOUND.own_statements[1]} Verdict {FOUND.statement}"
    )


@pytest.mark.parametrize("text", ["long-" * 30, "[/red]\x1b[31m"])
@pytest.mark.parametrize("width", [40, 80])
def test_long_and_hostile_texts_fit_and_are_inert(text: str, width: int) -> None:
    changed = attrs.evolve(FOUND, ids=(text, text), own_statements=(text, text), statement=text)
    shown = show(render_across(changed), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown


def test_the_json_holds_the_ratio_with_its_interval() -> None:
    assert set(to_json(FOUND)) == {
        "ids", "own_statements", "verdict", "speedup", "low", "high", "confidence", "statement",
        "schema_version",
    }  # fmt: skip
