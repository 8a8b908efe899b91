"""Figures, words and limits that mutants of the statistics changed and no other test noticed."""

from __future__ import annotations

import math

import attrs
import pytest
from support.measure_runs import make_fit, make_judgement, make_outcome, make_pairs, make_run
from support.report_results import make_comparison, make_quality

from tfopt_core.records.fit import Block, StepTrace
from tfopt_core.records.results import Attribution
from tfopt_core.records.verdict import Verdict
from tfopt_core.statistics.figures import planned_steps
from tfopt_core.statistics.intervals import (
    FIXED_LEVEL,
    PAIRS_FOR_SMALL_GAINS,
    Interval,
    _noncentrality,
    pairs_needed,
)
from tfopt_core.statistics.judgement import RELATIVE_TOLERANCE
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.statistics.timing.projection import _relative_error
from tfopt_core.statistics.timing.retraces import retraced_runs
from tfopt_core.statistics.timing.steady import last_segment, steady_from
from tfopt_core.statistics.timing.summary import summarize
from tfopt_core.statistics.verdicts.advice import next_steps
from tfopt_core.statistics.verdicts.amounts import examples
from tfopt_core.statistics.verdicts.claims import inconclusive
from tfopt_core.statistics.verdicts.quality import compare_quality
from tfopt_core.statistics.verdicts.stopping import (
    failed_for_good,
    is_complete,
    rounds_in_a_row,
    worth_repeating,
)
from tfopt_core.statistics.wording import bound_in_words, gain_in_words

RUNS = make_pairs((10.0,) * 4, (8.0,) * 4, plugins=("a", "b"))


def interval(mean: float, half: float, count: int = 4, **changes) -> Interval:
    plain = Interval(
        mean=mean, low=mean - half, high=mean + half, level=FIXED_LEVEL, count=count, deviation=0.1
    )
    return attrs.evolve(plain, **changes)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_pairs_that_it_takes_are_the_square_of_the_ratio_of_width_and_mean(sign):
    # half a width of one pair is 0.6, 0.6 / 0.17 = 3.53, and its square 12.46
    assert pairs_needed(interval(sign * 0.17, 0.3)) == 13
    assert pairs_needed(interval(sign * 0.2, 0.21, count=5)) == 6
    assert pairs_needed(interval(0.0, 0.3)) == 10_000
    assert pairs_needed(interval(sign * 0.3, 0.1)) == PAIRS_FOR_SMALL_GAINS


def test_the_noncentrality_is_that_of_the_tables():
    from scipy import stats

    found = _noncentrality(0.975, 11)
    assert stats.nct.sf(stats.t.ppf(0.975, 11), 11, found) == pytest.approx(0.9, abs=1e-6)


def test_past_the_last_look_nothing_more_is_asked_for():
    for count in (12, 13):
        said = inconclusive(interval(0.01, 0.05, count=count, level=0.0203))
        assert "not resolvable at this machine's noise" in said
    assert "more pairs" in inconclusive(interval(0.04, 0.05, count=8, level=0.0203))


@pytest.mark.parametrize(
    ("gain", "words"), [(1.12, "12%"), (1.009, "0.9%"), (1.0096, "1%"), (1.001, "0.1%")]
)
def test_a_small_gain_has_a_decimal(gain, words):
    assert gain_in_words(gain) == words


@pytest.mark.parametrize(
    ("bound", "words"),
    [(1.251, "1.26x"), (1.1, "1.10x"), (2.61, "2.7x"), (9.9, "9.9x"), (10.0, ""), (None, "")],
)
def test_a_bound_is_rounded_up_and_one_of_ten_tells_nothing(bound, words):
    assert bound_in_words(bound) == words


def test_the_resolution_is_the_standard_error_of_a_share():
    runs = make_pairs((10.0, 10.1), (8.0, 8.1), metrics={"val_accuracy": 0.9})
    found = compare_quality(pairs_of(runs), make_judgement(examples=900))
    assert found.resolution == pytest.approx(0.01)
    assert "(change +0.0000 to +0.0000, tolerance 0.005)" in found.statement


def test_the_change_of_a_loss_is_said_from_its_lower_end_to_its_higher():
    runs = []
    for round_, loss in enumerate((0.50, 0.52, 0.51, 0.53)):
        for variant, value in (("baseline", 0.5), ("full", loss)):
            runs.append(make_run(variant, round_, 9.0, metrics={"val_loss": value}))
    judged = make_judgement(metric="val_loss", direction="min", tolerance=0.1)
    low, high = (
        compare_quality(pairs_of(runs), judged).statement.partition("change ")[2].split()[:3:2]
    )
    assert float(low) < 0.015 < float(high.rstrip(","))


def test_the_tolerance_of_a_loss_is_a_share_of_it_and_that_of_a_metric_is_fixed():
    loss = make_judgement(tolerance=None, direction="min", metric="val_loss")
    assert loss.tolerance_for(-2.0) == pytest.approx(2 * RELATIVE_TOLERANCE)
    assert make_judgement(tolerance=None).tolerance_for(0.5) == make_judgement().tolerance_for(9.0)


def test_the_steps_and_examples_of_a_training_are_products():
    cut = make_fit(complete=False, planned_epochs=3, steps_per_epoch=5, batch_size=7)
    assert planned_steps(cut) == 15
    assert examples(make_run("full", 0, 9.0, fit=cut)) == 105


def test_a_fit_has_its_seconds_if_it_has_a_name_and_the_target_its_epochs_end():
    from tfopt_core.recipe import TargetSpec

    named = summarize(make_outcome(name="first"), TargetSpec("val_accuracy", at_least=0.85))
    assert (named.wall_seconds, named.seconds_to_target) == (10.0, 10.0)
    assert summarize(make_outcome(), None).wall_seconds is None


def test_the_error_of_a_mean_step_is_that_of_the_textbook():
    blocks = [Block(1, seconds) for seconds in (1.0, 3.0)]
    assert _relative_error(blocks, 2.0) == pytest.approx(0.5)  # sqrt(2 / 1 / 2) / 2
    assert _relative_error(blocks[:1], 1.0) == math.inf


def test_short_blocks_are_left_out_where_there_are_long_ones():
    short = [Block(1, 0.5), Block(20, 0.001)] * 30
    long = [Block(10, 0.1 + 0.0001 * (n % 3)) for n in range(40)]
    # the short ones differ among each other, and the long ones begin behind them
    assert steady_from([*short, *long]) == 60
    assert steady_from([*long, *short]) == 0


def test_a_level_within_a_percent_of_the_last_belongs_to_it():
    noise = [1 + 0.0005 * (-1) ** n * (1 + n % 3) for n in range(40)]
    near = [0.100 * x for x in noise] + [0.1005 * x for x in noise]
    far = [0.115 * x for x in noise] + [0.100 * x for x in noise]
    assert len(last_segment(near)) == 80
    assert len(last_segment(far)) == 40
    assert len(last_segment([1000 * x for x in near])) == 80


def test_retraces_are_those_of_their_own_variant():
    traced = tuple(StepTrace(steps=5 * n, shapes="a", cause="python") for n in range(4))
    runs = [make_run("baseline", 0, 9.0, fit=make_fit(traces=traced)), make_run("full", 0, 9.0)]
    assert all('of "baseline"' in warning for warning in retraced_runs(runs))


def test_a_variant_that_failed_is_no_other_and_rounds_count_from_the_first():
    failed = [make_run("without b", n, 9.0, status="failed") for n in range(2)]
    once = [make_run("zz", 0, 9.0, status="failed")]
    assert failed_for_good([*failed, *once]) == {"without b"}
    runs = [make_run("baseline", 0, 9.0), make_run("full", 1, 9.0)]
    assert not is_complete(runs, 1)
    assert rounds_in_a_row(RUNS) == 4
    assert rounds_in_a_row(RUNS[:6]) == 3
    assert rounds_in_a_row(runs) == 0


def test_repeating_ends_once_it_has_failed_often_enough():
    def of_round(number, *, again):
        one = make_run("full", number, 9.0)
        one = attrs.evolve(one, disturbance={"steal_share": 0.2})
        return [attrs.evolve(one, status="repeated"), one] if again else [one]

    def runs(tried):
        return [run for n in range(tried) for run in of_round(n, again=True)]

    assert worth_repeating([*runs(1), *of_round(9, again=False)], 9)
    for tried in (2, 3):
        assert not worth_repeating([*runs(tried), *of_round(9, again=False)], 9)


# What to do next


def advice(verdict, *, runs=RUNS, pairs=None, seconds=None, **changes):
    comparison = make_comparison(verdict=verdict, **changes)
    return " | ".join(next_steps(runs, comparison, (), pairs, seconds))


def test_isolating_names_its_runs_a_round_and_what_was_not_applied():
    assert "(about 60 s, 4 runs a round)" in advice(Verdict.FASTER, seconds=60.0)
    idle = make_pairs((10.0,) * 4, (8.0,) * 4, applied=False)
    assert 'take "p" out of the recipe: it was not applied' in advice(Verdict.FASTER, runs=idle)


@pytest.mark.parametrize(("asked", "more"), [(None, 12), (8, 12), (12, 24), (20, 40)])
def test_for_the_quality_more_pairs_are_asked_for(asked, more):
    said = advice(Verdict.QUALITY_OPEN, pairs=asked, quality=make_quality())
    assert f"--pairs {more})" in said


@pytest.mark.parametrize(("step", "said"), [(99, False), (100, False), (101, True), (None, False)])
def test_a_start_that_is_not_repaid_yet_is_advised_about(step, said):
    assert ("train longer: the start" in advice(Verdict.SLOWER, break_even_step=step)) is said


def test_an_attribution_is_no_argument_for_itself():
    row = Attribution(
        plugin="a", left_out=0.9, alone=None, credit=0.9, low=0.85, high=0.95, run_ids=(),
        statement="a: slower with it",
    )  # fmt: skip
    said = next_steps(RUNS, make_comparison(verdict=Verdict.FASTER), (row,), None)
    assert said == ('remove "a": the stack is faster without it',)
