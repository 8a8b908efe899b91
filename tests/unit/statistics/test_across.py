"""Each statement on two stacks: measurements that give it, and such as must not."""

from __future__ import annotations

import math
import random

import attrs
import pytest
from support.measure_across import BASE, make_measured
from support.measure_runs import make_fit, make_judgement, make_pairs

from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.across import compare_stacks, welch_interval
from tfopt_core.statistics.intervals import FIXED_LEVEL, LOOK_LEVEL, LOOKS, t_interval

FAST = (8.0, 8.1, 7.95, 8.02)  # 1.25x
FASTER = (6.66, 6.75, 6.62, 6.68)  # 1.5x
FAST_AGAIN = (8.01, 8.09, 7.93, 8.04)
SURE = [b / f for b, f in zip(BASE, [1.263, 1.264, 1.2635, 1.2632], strict=True)]
NOISY = (6.5, 8.9, 7.0, 9.6)


def across(a=FAST, b=FASTER, **changes):
    return compare_stacks(make_measured("a", a), make_measured("b", b, **changes))


def test_faster_needs_the_interval_above_one():
    found = across()
    assert found.verdict == "faster"
    assert found.statement == (
        "B's stack is faster than A's: 1.20x (95% interval 1.19 to 1.21, 4 and 4 pairs, each "
        "against its own baseline)"
    )
    assert 1 < found.low < found.speedup < found.high
    assert across(b=NOISY).verdict != "faster"


def test_slower_is_the_same_contrast_the_other_way_round():
    there, back = across(), across(FASTER, FAST)
    assert back.verdict == "slower"
    assert back.statement.startswith("B's stack is slower than A's: 0.83x (95% interval")
    assert math.isclose(there.low * back.high, 1)


def test_a_tiny_sure_gain_is_said_to_lie_within_the_band():
    steady = [b / f for b, f in zip(BASE, [1.25, 1.251, 1.2505, 1.2502], strict=True)]
    found = across(steady, SURE)
    assert found.verdict == "faster"
    assert found.statement.endswith("(within the 2% band)")


def test_no_measurable_difference_needs_the_interval_inside_the_band():
    found = across(b=FAST_AGAIN)
    assert found.verdict == "no difference"
    assert found.statement.startswith(
        "no measurable difference between the stacks (within 2%): 1.00x"
    )
    assert across(b=NOISY).verdict == "inconclusive"
    assert across(b=NOISY).statement.startswith("inconclusive: which stack is faster cannot")


def test_a_disturbed_run_forbids_to_claim_no_difference():
    b = make_measured("b", FAST_AGAIN)
    runs = tuple(attrs.evolve(run, disturbance={"steal_share": 0.2}) for run in b.results.runs)
    b = attrs.evolve(b, results=attrs.evolve(b.results, runs=runs))
    found = compare_stacks(make_measured("a", FAST), b)
    assert found.verdict == "disturbed"
    assert (
        "steal 20% of CPU time in 8 of 16 runs; no difference between the stacks may be claimed"
        in found.statement
    )


def test_each_side_counts_its_own_pairs():
    found = across(b=FASTER * 2, baseline=BASE * 2)
    assert "4 and 8 pairs" in found.statement
    assert (len(found.a.log_ratios), len(found.b.log_ratios)) == (4, 8)


def test_only_pairs_that_the_own_verdict_rests_on_are_compared():
    b = make_measured("b", FASTER)
    late = make_pairs((*BASE, 10.0), (*FASTER, 99.0))
    b = attrs.evolve(b, results=attrs.evolve(b.results, runs=tuple(late)))
    assert compare_stacks(make_measured("a", FAST), b) == across()


def test_times_to_the_target_are_compared_where_these_were_judged():
    def to_target(id_, walls, share):
        runs = [
            attrs.evolve(run, fits=(make_fit(seconds_to_target=run.wall_seconds * share),))
            for run in make_pairs(BASE, walls)
        ]
        return make_measured(id_, walls, runs=runs, judgement=make_judgement(math="changes"))

    found = compare_stacks(to_target("a", FAST, 0.5), to_target("b", FASTER, 0.4))
    assert found.kind == "time-to-target"
    assert found.statement.startswith("B's stack is faster than A's to the target: 1.20x")
    assert found.b.baseline_seconds == pytest.approx(10.025 * 0.4)


def test_projected_times_are_compared_where_these_were_judged():
    def steady(id_, walls):
        runs = [
            attrs.evolve(run, fits=(make_fit(complete=False, projected_seconds=wall),))
            for run, wall in ((run, 10 * run.wall_seconds) for run in make_pairs(BASE, walls))
        ]
        return make_measured(id_, walls, runs=runs, comparison={"kind": ComparisonKind.STEADY})

    found = compare_stacks(steady("a", FAST), steady("b", FASTER))
    assert found.statement.startswith("B's stack is faster than A's (projected): 1.20x")
    assert found.a.baseline_seconds == pytest.approx(100.25)


# After looks


def test_a_side_that_stopped_at_a_look_widens_the_interval():
    looked = make_measured("b", FASTER, judgement=make_judgement(sequential=True))
    found = compare_stacks(make_measured("a", FAST), looked)
    assert "98% interval" in found.statement
    assert found.confidence == 1 - LOOK_LEVEL
    assert found.low < across().low


def _until_clear(source, mean):
    """Log ratios as measuring leaves them: it stops at a look that tells them from nought."""
    values = [source.gauss(mean, 0.1) for _ in range(LOOKS[-1])]
    for look in LOOKS:
        interval = t_interval(values[:look], LOOK_LEVEL)
        if interval.low > 0 or interval.high < 0:
            break
    return values[:look]


def test_after_looks_the_contrast_still_errs_in_one_of_twenty():
    source, trials = random.Random(7), 4000
    misses = {LOOK_LEVEL: 0, FIXED_LEVEL: 0}
    for _ in range(trials):
        a, b = _until_clear(source, 0.05), _until_clear(source, 0.05)
        for level in misses:
            low, high = welch_interval(a, b, level)
            misses[level] += not low <= 0 <= high
    assert misses[LOOK_LEVEL] / trials < 0.055  # 0.045, and three standard errors
    assert misses[FIXED_LEVEL] / trials > 0.07


# What stands beside the verdict


def test_baselines_that_differ_are_pointed_out():
    double = [2 * seconds for seconds in BASE]
    warning = across(b=[2 * seconds for seconds in FASTER], baseline=double).warning
    assert "the baselines differ (median 10.03 s in A, 20.05 s in B)" in warning
    assert across().warning == ""


def test_the_same_recipe_measured_twice_is_compared():
    assert across(b=FAST_AGAIN, recipe_sha256="a").verdict == "no difference"


@pytest.mark.parametrize("looked", ["a", "b"])
def test_one_side_that_stopped_at_a_look_is_enough(looked):
    sides = {
        id_: make_measured(id_, FASTER, judgement=make_judgement(sequential=id_ == looked))
        for id_ in "ab"
    }
    assert compare_stacks(sides["a"], sides["b"]).confidence == 1 - LOOK_LEVEL
