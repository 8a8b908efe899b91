"""The list of measurements, and a measurement without a verdict."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.report_results import make_run, show

from tfopt_core.records.verdict import Verdict
from tfopt_core.report.results.pages import render_across, render_interim, render_runs
from tfopt_core.report.style.units import when_text
from tfopt_core.statistics.across import Across
from tfopt_core.store.decoding import Interim, Overview

LONG = "long-" * 30
HOSTILE = "[/red]\x1b[31m"
OVERVIEW = Overview(
    id="20261121-125813-785d", created_at="2026-11-21T12:58:18.632+00:00", recipe="quickstart",
    recipe_sha256="ab" * 32, workload="fashion-mnist", state="finished", verdict=Verdict.FASTER,
    speedup=1.61, low=1.21, high=2.14, confidence=0.95, pairs=4, runs=8,
)  # fmt: skip
UNFINISHED = attrs.evolve(
    OVERVIEW, state="unfinished", verdict=None, speedup=None, low=None, high=None, confidence=None,
    pairs=0, runs=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def listed(*measurements: Overview, width: int = 80) -> str:
    return show(render_runs(Path("p/.tfopt/runs.sqlite"), measurements), width)


def test_a_measurement_has_two_lines() -> None:
    lines = listed(OVERVIEW).splitlines()
    assert lines[1].split() == ["20261121-125813-785d", "quickstart", "faster", "4", "pairs",
                                "finished"]  # fmt: skip
    assert " ".join(lines[2].split()) == (
        "2026-11-21 12:58 fashion-mnist 1.61x (1.21 to 2.14) 8 runs"
    )


def test_no_measurement_is_said_in_one_sentence_with_the_place() -> None:
    said = 'nothing was measured yet: there is no measurement in "p/.tfopt/runs.sqlite"'
    assert listed().replace("\n", " ").strip() == said


def test_unfinished_is_explained_where_there_is_one() -> None:
    assert "unfinished: begun and never concluded" in listed(OVERVIEW, UNFINISHED)
    assert "unfinished" not in listed(OVERVIEW)
    assert "1 run\n" in listed(UNFINISHED)


def test_a_damaged_measurement_is_listed_with_what_cannot_be_read() -> None:
    damaged = attrs.evolve(UNFINISHED, id="bad", state="damaged", damage="its results cannot be "
                           "read: JSONDecodeError")  # fmt: skip
    text = " ".join(listed(OVERVIEW, damaged).split())
    assert "- 0 pairs damaged" in text
    assert "damaged: of bad its results cannot be read: JSONDecodeError; the others can" in text
    assert "damaged" not in listed(OVERVIEW, UNFINISHED)


def test_the_time_is_local_and_a_text_that_is_none_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    assert when_text("2026-11-21T23:58:18+00:00") == "2026-11-22 01:58"
    assert when_text("once") == "once"


@pytest.mark.parametrize("name", [LONG, HOSTILE])
@pytest.mark.parametrize("width", [40, 100])
def test_long_and_hostile_names_fit_and_are_inert(name: str, width: int) -> None:
    strange = attrs.evolve(OVERVIEW, id=name, created_at=name, recipe=name, workload=name,
                           damage=name)  # fmt: skip
    run = make_run(0, name, status="failed", error=name)
    interim = render_interim(Interim(measurement=strange, runs=(run,)))
    across = render_across(attrs.evolve(FOUND, own_statements=(name, name), statement=name))
    for text in (
        listed(strange, UNFINISHED, width=width),
        *(show(p, width) for p in (interim, across)),
    ):
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text


def test_without_a_verdict_the_runs_are_listed() -> None:
    failed = make_run(1, "full", status="failed", error="killed by SIGKILL")
    text = show(render_interim(Interim(measurement=UNFINISHED, runs=(make_run(0), failed))))
    assert text.startswith("quickstart on fashion-mnist\n  id     20261121-125813-785d\n")
    assert "baseline        pair 1  2 min 3 s" in text
    assert "with the stack  pair 1  failed: killed by SIGKILL" in text
    assert "so there is no verdict" in " ".join(text.split())
    none = show(render_interim(Interim(measurement=UNFINISHED, runs=())))
    assert "Runs\n  none was finished" in none


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
