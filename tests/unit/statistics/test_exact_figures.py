"""Arithmetic against an oracle; figures, words and limits that mutants of the code changed."""

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import DescrStatsW
from support.measure_runs import make_judgement, make_outcome, make_pairs, make_run
from support.report_results import make_comparison, make_quality

from tfopt_core.measurement.conclude import next_steps
from tfopt_core.measurement.groups import failed_for_good
from tfopt_core.statistics.claims import compare_quality, inconclusive
from tfopt_core.statistics.figures import RELATIVE_TOLERANCE, verdict_on_interval
from tfopt_core.statistics.fit_figures import SHOWN, retraces, summarize
from tfopt_core.statistics.intervals import (
    LEVEL,
    Interval,
    bound_in_words,
    log_ratios,
    pairs_needed,
    range_in_words,
    seconds_in_words,
    t_interval,
)
from tfopt_core.statistics.results import Addition, Attribution, QualityVerdict, Verdict
from tfopt_core.statistics.runs import pairs_of
from tfopt_core.training.messages import StepTrace

samples = st.lists(st.floats(-5, 5), min_size=2, max_size=12)


@given(samples, st.sampled_from([0.05, 0.0125, 0.01]))
def test_the_interval_agrees_with_statsmodels(values, level):
    interval = t_interval(values, level)
    oracle = DescrStatsW(values)
    low, high = oracle.tconfint_mean(alpha=level)
    assert math.isclose(interval.mean, oracle.mean, abs_tol=1e-9)
    assert math.isclose(interval.low, low, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(interval.high, high, rel_tol=1e-9, abs_tol=1e-9)


def test_an_interval_needs_two_values():
    with pytest.raises(ValueError, match="needs two values, got 1"):
        t_interval([1.0], 0.05)


def test_a_ratio_needs_positive_figures_and_equal_numbers_of_them():
    with pytest.raises(ValueError, match="positive"):
        log_ratios([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="zip"):
        log_ratios([1.0], [1.0, 1.0])


# Figures, words and limits that mutants of the statistics changed and no other test noticed

SIDES = ("baseline", "full")
RUNS = make_pairs((10.0,) * 4, (8.0,) * 4, plugins=("a", "b"))


def interval(mean: float, half: float, count: int = 4, **changes) -> Interval:
    plain = Interval(
        mean=mean,
        low=mean - half,
        high=mean + half,
        confidence=1 - LEVEL,
        count=count,
        deviation=0.1,
    )
    return attrs.evolve(plain, **changes)


def of_pairs(metric: str, pairs):
    """Runs with these values of a metric."""
    return [
        make_run(variant, number, 9.0, metrics={metric: value})
        for number, pair in enumerate(pairs)
        for variant, value in zip(SIDES, pair, strict=True)
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_pairs_that_it_takes_are_the_square_of_the_ratio_of_width_and_mean(sign):
    # half a width of one pair is 0.6, 0.6 / 0.17 = 3.53, and its square 12.46
    assert pairs_needed(interval(sign * 0.17, 0.3)) == 13
    assert pairs_needed(interval(sign * 0.2, 0.21, count=5)) == 6
    assert pairs_needed(interval(0.0, 0.3)) == 10_000


def test_what_would_take_more_than_a_hundred_pairs_is_not_resolvable():
    assert "--pairs 13 would tell" in inconclusive(interval(0.04, 0.05, count=8))
    assert "not resolvable" in inconclusive(interval(0.01, 0.4))


@pytest.mark.parametrize(
    ("bound", "words"),
    [(1.251, "1.26x"), (1.1, "1.10x"), (2.0, "2.0x"), (2.61, "2.7x"), (9.9, "9.9x"), (10.0, ""),
     (None, "")],
)  # fmt: skip
def test_a_bound_is_rounded_up_and_one_of_ten_tells_nothing(bound, words):
    assert bound_in_words(bound) == words


def test_the_resolution_is_the_standard_error_of_a_share():
    runs = make_pairs((10.0, 10.1), (8.0, 8.1), metrics={"val_accuracy": 0.9})
    found = compare_quality(pairs_of(runs), make_judgement(examples=900))
    assert found.resolution == pytest.approx(0.01)
    for unknown in ({"examples": None}, {"metric": "auc"}):
        judged = make_judgement(**{"examples": 900, **unknown})
        runs = of_pairs(judged.metric, [(0.9, 0.9)] * 2)
        assert compare_quality(pairs_of(runs), judged).resolution is None
    assert "(change +0.0000 to +0.0000, tolerance 0.005)" in found.statement


def test_the_change_of_a_loss_is_said_from_its_lower_end_to_its_higher():
    runs = of_pairs("val_loss", [(0.5, loss) for loss in (0.50, 0.52, 0.51, 0.53)])
    judged = make_judgement(metric="val_loss", direction="min", tolerance=0.1)
    said = compare_quality(pairs_of(runs), judged).statement
    low, high = said.partition("change ")[2].split()[:3:2]
    assert float(low) < 0.015 < float(high.rstrip(","))


def test_the_tolerance_of_a_loss_is_a_share_of_it_and_that_of_a_metric_is_fixed():
    loss = make_judgement(tolerance=None, direction="min", metric="val_loss")
    assert loss.tolerance_for(-2.0) == pytest.approx(2 * RELATIVE_TOLERANCE)
    assert make_judgement(tolerance=None).tolerance_for(0.5) == make_judgement().tolerance_for(9.0)


def test_a_fit_has_its_seconds_if_it_has_a_name_and_the_target_its_epochs_end():
    from tfopt_core.recipe.model import TargetSpec

    named = summarize(make_outcome(name="first"), TargetSpec("val_accuracy", at_least=0.85))
    assert (named.wall_seconds, named.seconds_to_target) == (10.0, 10.0)
    assert summarize(make_outcome(), None).wall_seconds is None


def test_a_variant_that_failed_is_no_other_and_rounds_count_from_the_first():
    once = [make_run("zz", 0, 9.0, status="failed")]
    for times in (2, 3):
        failed = [make_run(f"without {b}", 0, 9.0, status="failed") for b in "b" * times]
        assert failed_for_good([*failed, *once]) == {"without b"}


# What to do next
def advice(verdict, *, runs=RUNS, pairs=None, seconds=None, **changes):
    comparison = make_comparison(verdict=verdict, **changes)
    return " | ".join(next_steps(runs, comparison, (), pairs, seconds))


def test_isolating_names_the_runs_of_a_group_and_what_was_not_applied():
    assert "(about 60 s, 4 runs a group)" in advice(Verdict.FASTER, seconds=60.0)
    idle = make_pairs((10.0,) * 4, (8.0,) * 4, applied=False)
    assert 'take "p" out of the recipe: it was not applied' in advice(Verdict.FASTER, runs=idle)


@pytest.mark.parametrize(("asked", "more"), [(4, 12), (6, 12), (12, 24), (20, 40)])
def test_for_the_quality_more_pairs_are_asked_for(asked, more):
    said = advice(Verdict.QUALITY_OPEN, pairs=asked, quality=make_quality())
    assert f"--pairs {more})" in said


def test_where_no_metric_is_seen_no_pairs_are_asked_for():
    said = advice(Verdict.QUALITY_OPEN, quality=make_quality(metric=""))
    # what settles the verdict comes before what explains it
    assert said.startswith(
        "compare the models of both sides by what the script prints: tfopt sees no metric that "
        "it can judge by"
    )


def test_an_attribution_is_no_argument_for_itself():
    row = Attribution(
        plugin="a", left_out=0.9, low=0.85, high=0.95, run_ids=(), statement="a: slower with it"
    )
    said = next_steps(RUNS, make_comparison(verdict=Verdict.FASTER), (row,), None)
    assert said == ('remove "a": the stack is faster without it',)


@pytest.mark.parametrize(
    ("seconds", "words"), [(89.9, "90 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_a_duration_has_the_unit_of_its_size(seconds, words):
    assert seconds_in_words(seconds) == words


@pytest.mark.parametrize(
    ("ends", "words"),
    [((0.998, 1.2), "0.998 to 1.200"), ((1.0, 1.2), "1.00 to 1.20"),
     ((0.8, 1.0004), "0.8000 to 1.0004"), ((1.0000001, 1.2), "1.00000 to 1.20000")],
)  # fmt: skip
def test_the_ends_of_an_interval_show_on_which_side_of_1_they_lie(ends, words):
    assert range_in_words(*ends) == words


@pytest.mark.parametrize("ends", [(0.9, 1.01), (0.99, 1.1), (0.9, 1.1)])
def test_an_interval_that_leaves_the_band_on_one_side_shows_nothing(ends):
    assert verdict_on_interval(*ends) is Verdict.INCONCLUSIVE
    assert verdict_on_interval(0.99, 1.01) is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(("mean", "is_worse"), [(-0.004, False), (-0.02, True)])
def test_a_metric_is_worse_only_where_its_upper_bound_is_below_the_tolerance(mean, is_worse):
    noises = (-0.002, 0.002, -0.001, 0.001)
    runs = of_pairs("val_accuracy", [(0.9, 0.9 + mean + noise) for noise in noises])
    verdict = compare_quality(pairs_of(runs), make_judgement(tolerance=0.005)).verdict
    assert verdict is (QualityVerdict.WORSE if is_worse else QualityVerdict.NOT_ESTABLISHED)


@pytest.mark.parametrize(("shapes", "cut"), [(SHOWN, False), (SHOWN + 1, True), (SHOWN + 2, True)])
def test_more_shapes_than_are_listed_are_told_by_dots(shapes, cut):
    traces = [StepTrace(steps=9, shapes=f"({n},)", cause="shapes") for n in range(shapes)]
    [(times, _)] = retraces(traces)
    assert times.endswith("; ...") is cut
    assert f"({SHOWN - 1},)" in times


@pytest.mark.parametrize(
    ("quality", "said"),
    [(QualityVerdict.WORSE, ""), (QualityVerdict.CERTIFIED, "take the # off in the recipe"),
     (QualityVerdict.NOT_WORSE, "take the # off in the recipe"),
     (QualityVerdict.NOT_ESTABLISHED, "was not established"), (None, "was not established")],
)  # fmt: skip
def test_what_is_faster_on_top_is_advised_by_what_its_model_is_worth(quality, said):
    addition = Addition(
        plugins=("low",), resolved={}, equivalence="rounding", variant="plus low",
        verdict=Verdict.FASTER, statement="",
        quality=None if quality is None else make_quality(verdict=quality),
    )  # fmt: skip
    steps = next_steps(RUNS, make_comparison(verdict=Verdict.FASTER), (), None, addition=addition)
    adding = [step for step in steps if "to train with low too" in step]
    assert [step.endswith(said) for step in adding] == [True] * bool(said)
