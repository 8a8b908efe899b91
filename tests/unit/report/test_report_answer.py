"""The answer of a measurement: at most ten lines, whose figures are those of the verdict."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from support.report_results import (
    make_comparison,
    make_memory,
    make_quality,
    make_results,
    make_run,
    show,
)

from tfopt_core.hooks.values import Effect
from tfopt_core.records.results import Results
from tfopt_core.records.verdict import ComparisonKind, MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.report.results.answer import answer_lines, headline, render_answer

LONG = "a sentence that goes on for longer than anybody would want to read it, " * 4


def results_of(verdict: Verdict, **changes: Any) -> Results:
    comparison = make_comparison(verdict=verdict, statement=f"{verdict.label}: {LONG}")
    given = {"comparison": comparison, "warnings": (LONG, LONG), "next_steps": (LONG,)}
    return make_results(**{**given, **changes})


@pytest.mark.parametrize("verdict", Verdict, ids=str)
def test_an_answer_has_at_most_ten_lines_in_eighty_columns(verdict: Verdict) -> None:
    failed = make_run(8, "full", status="failed", fits=(), error=f"ValueError: {LONG}")
    results = results_of(verdict, saved_model="m.keras (run 03, val_accuracy 0.8123)")
    results = attrs.evolve(results, runs=(*results.runs, failed))
    answer = show(render_answer(results, "recipe.toml"), 80)
    lines = answer.rstrip("\n").split("\n")
    assert len(lines) <= 10, answer
    assert all(len(line) <= 80 for line in lines)
    assert "tfopt report 7f3a --verbose" in answer
    assert "ValueError: a sentence that goes on" in " ".join(answer.split())
    assert "m.keras (run 03, val_accuracy 0.8123)" in answer


@pytest.mark.parametrize("verdict", Verdict, ids=str)
def test_what_gains_nothing_says_why_and_only_what_gains_is_kept(verdict: Verdict) -> None:
    answer = show(render_answer(results_of(verdict), "recipe.toml"), 80)
    faster = verdict in (Verdict.FASTER, Verdict.STEPS_FASTER)
    gains = faster or verdict is Verdict.FITS
    assert ("keep it  tfopt train recipe.toml" in answer) is gains
    assert (f"why      {verdict.label}" in answer) is not gains
    assert ("x faster" in headline(results_of(verdict))) is (
        faster or verdict in (Verdict.WORSE, Verdict.QUALITY_OPEN)
    )


def test_the_times_of_an_answer_have_the_ratio_of_its_verdict() -> None:
    seconds = {"baseline": (10.0, 12.0, 9.0, 11.0), "full": (8.0, 9.0, 7.0, 9.5)}
    runs = tuple(
        make_run(2 * pair + place, variant, round=pair, wall_seconds=seconds[variant][pair])
        for pair in range(4)
        for place, variant in enumerate(seconds)
    )
    before, after = ((one[0] * one[1] * one[2] * one[3]) ** 0.25 for one in seconds.values())
    comparison = make_comparison(speedup=before / after)
    answer = show(render_answer(make_results(runs=runs, comparison=comparison)), 80)
    found = re.search(r"time +([\d.]+) s -> ([\d.]+) s", answer)
    assert found is not None
    assert float(found[1]) / float(found[2]) == pytest.approx(before / after, rel=0.01)
    assert f"{before / after:.2f}x faster, as good" in answer


def test_the_words_of_an_answer_follow_what_is_known_of_the_quality() -> None:
    certified = make_quality(verdict=QualityVerdict.CERTIFIED, certificate="certified")
    for quality, words in (
        (certified, "1.25x faster, same training"),
        (make_quality(), "1.25x faster, as good"),
        (None, "whether the model is as good is not known"),
    ):
        assert words in headline(make_results(comparison=make_comparison(quality=quality)))
    steps = make_comparison(kind=ComparisonKind.STEPS, verdict=Verdict.STEPS_FASTER)
    assert headline(make_results(comparison=steps)) == "steps 1.25x faster, as good"
    memory = make_comparison(objective="memory", memory=(make_memory(),))
    assert headline(make_results(comparison=memory)) == "39% less peak memory"
    for verdict in set(MemoryVerdict) - {MemoryVerdict.LIGHTER}:
        judged = attrs.evolve(memory, memory=(make_memory(verdict=verdict),))
        answer = show(render_answer(make_results(comparison=judged), "recipe.toml"), 80)
        assert "faster" not in answer.split("\n")[0]
        assert "keep it" not in answer
    assert "interrupted" in headline(make_results(interrupted=True))


@pytest.mark.parametrize(
    ("verdict", "ending"),
    [
        (MemoryVerdict.NO_DIFFERENCE, "(no measurable difference)"),
        (MemoryVerdict.INCONCLUSIVE, "(not settled)"),
        (MemoryVerdict.HEAVIER, "GiB"),
    ],
)
def test_a_difference_in_memory_is_claimed_only_where_it_is_shown(
    verdict: MemoryVerdict, ending: str
) -> None:
    comparison = make_comparison(memory=(make_memory(verdict=verdict),))
    assert answer_lines(make_results(comparison=comparison))["memory"].endswith(ending)


def test_an_answer_says_which_plugins_took_effect_and_why_one_did_not() -> None:
    effects = {"cache": Effect(True, "in memory"), "xla": Effect(False, "no convolutions")}
    runs = tuple(make_run(n, ("baseline", "full")[n % 2], effects=effects) for n in range(8))
    answer = show(render_answer(make_results(runs=runs, resolved={"cache": {}, "xla": {}})), 80)
    assert "cache: took effect; xla not applied: no convolutions" in answer
