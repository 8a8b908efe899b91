"""The answer of a measurement, at most ten lines; what is said of an addition to an exact stack."""

import json
import re

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

from tfopt_core.commands.output import to_json
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.values import Effect
from tfopt_core.measurement.conclude import next_steps
from tfopt_core.report.html.charts import gains_of
from tfopt_core.report.html.page import html_page
from tfopt_core.report.results.answer import answer_lines, headline, render_answer
from tfopt_core.report.results.markdown import markdown_report
from tfopt_core.report.results.pages import render_summary
from tfopt_core.statistics.results import (
    Addition,
    ComparisonKind,
    MemoryVerdict,
    QualityVerdict,
    Verdict,
)
from tfopt_core.store.decoding import read_results

LONG = "a sentence that goes on for longer than anybody would want to read it, " * 4


def results_of(verdict, **changes):
    comparison = make_comparison(verdict=verdict, statement=f"{verdict.label}: {LONG}")
    given = {"comparison": comparison, "warnings": (LONG, LONG), "next_steps": (LONG,)}
    return make_results(**{**given, **changes})


@pytest.mark.parametrize("verdict", Verdict, ids=str)
def test_an_answer_has_at_most_ten_lines_in_eighty_columns(verdict):
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
def test_what_gains_nothing_says_why_and_only_what_gains_is_kept(verdict):
    answer = show(render_answer(results_of(verdict), "recipe.toml"), 80)
    faster = verdict in (Verdict.FASTER, Verdict.STEPS_FASTER)
    gains = faster or verdict is Verdict.FITS
    assert ("keep it  tfopt train recipe.toml" in answer) is gains
    assert (f"why      {verdict.label}" in answer) is not gains
    assert ("x faster" in headline(results_of(verdict))) is (
        faster or verdict in (Verdict.WORSE, Verdict.QUALITY_OPEN)
    )


def test_the_times_of_an_answer_have_the_ratio_of_its_verdict():
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


def test_the_words_of_an_answer_follow_what_is_known_of_the_quality():
    certified = make_quality(verdict=QualityVerdict.CERTIFIED, certificate="certified")
    for quality, words in (
        (certified, "1.25x faster, same training"),
        (make_quality(), "1.25x faster, as good"),
        (None, "1.25x faster, quality not established"),
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
        (MemoryVerdict.NO_DIFFERENCE, "(about the same)"),
        (MemoryVerdict.INCONCLUSIVE, "(inconclusive)"),
        (MemoryVerdict.HEAVIER, "GiB"),
    ],
)
def test_a_difference_in_memory_is_claimed_only_where_it_is_shown(verdict, ending):
    comparison = make_comparison(memory=(make_memory(verdict=verdict),))
    assert answer_lines(make_results(comparison=comparison))["memory"].endswith(ending)


def test_an_answer_says_which_plugins_took_effect_and_why_one_did_not():
    effects = {"cache": Effect(True, "in memory"), "xla": Effect(False, "no convolutions")}
    runs = tuple(make_run(n, ("baseline", "full")[n % 2], effects=effects) for n in range(8))
    answer = show(render_answer(make_results(runs=runs, resolved={"cache": {}, "xla": {}})), 80)
    assert "cache: took effect; xla not applied: no convolutions" in answer


STATEMENT = "low: faster with it on top of the stack: 1.40x (98% interval 1.35 to 1.45, 4 pairs)"
DIVERGES = "the stack rounds differently: over 100 replayed steps the loss diverges by up to 0.4%"


def make_addition(**changes):
    addition = Addition(
        plugins=("low",), resolved={"cache": {}, "low": {}}, equivalence="rounding",
        variant="plus low", verdict=Verdict.FASTER, speedup=1.4, low=1.35, high=1.45,
        confidence=0.98, pairs=4,
        run_ids=("r1",), total=1.75, total_low=1.7, total_high=1.8, statement=STATEMENT,
        quality=make_quality(
            verdict=QualityVerdict.NOT_ESTABLISHED, certificate=DIVERGES,
            statement="quality not established by val_accuracy: no run trained to its end",
        ),
    )  # fmt: skip
    return attrs.evolve(addition, **changes)


def with_addition(**changes):
    return make_results(addition=make_addition(**changes))


def test_the_page_says_below_the_verdict_what_it_adds_and_what_is_known_of_its_quality():
    page = " ".join(show(render_summary(with_addition()), 100).split())
    verdict, title = page.index("faster: 1.25x"), page.index("With other rounding: low")
    assert verdict < title < page.index(STATEMENT) < page.index("quality not established by val")
    assert DIVERGES in page


def test_the_other_pages_say_the_same():
    results = with_addition()
    flowing = " ".join(markdown_report(results).split())
    assert "faster with it on top of the stack" in flowing
    assert "1.35 to 1.45" in markdown_report(results)
    html = html_page(results)
    assert "With other rounding: low" in html
    assert DIVERGES in html
    assert [(gain.label, gain.ratio) for gain in gains_of(results)] == [
        ("the whole stack", 1.25), ("low, on top of it", 1.4)
    ]  # fmt: skip


def steps_after(**changes):
    results = make_results()
    addition = make_addition(**changes)
    return " ".join(next_steps(results.runs, results.comparison, (), None, addition=addition))


def test_what_is_faster_may_be_taken_into_the_recipe_unless_its_model_is_worse():
    assert "to train with low too, take the # off" in steps_after()
    assert "was not established" in steps_after()
    assert "not established" not in steps_after(quality=make_quality())
    worse = make_quality(verdict=QualityVerdict.WORSE)
    assert "low" not in steps_after(quality=worse)
    assert "low" not in steps_after(verdict=Verdict.INCONCLUSIVE)


def test_every_page_and_the_json_say_what_a_first_look_found_to_change_by_hand(tmp_path):
    found = Finding(kind="sequential-map", detail="one by one", mend="AUTOTUNE", place="train.py:3")
    results = attrs.evolve(with_addition(), findings=(found,))
    for page in (show(render_summary(results), 100), markdown_report(results), html_page(results)):
        said = " ".join(page.replace("\\", "").split())
        assert said.index("To change by hand") < said.index("sequential map: one by one")
    (tmp_path / "results.json").write_text(json.dumps(to_json(results)))
    assert read_results(tmp_path / "results.json") == results


@pytest.mark.parametrize(
    ("warning", "told"),
    [
        ("no time was left to try xla: tfopt tune train.tfopt.toml tries more of them",
         "no time was left to try xla (1 more)"),
        ("steps alone are judged (--full: whole trainings), as a run ended within its first epoch",
         "steps alone are judged (1 more)"),
    ],
)  # fmt: skip
def test_a_note_that_is_too_long_is_cut_before_a_command_and_not_within_it(warning, told):
    assert answer_lines(make_results(warnings=(warning, "another")), None)["note"] == told
