"""Each statement on two stacks: measurements that give it, and such as must not."""

from __future__ import annotations

import math

import attrs
import pytest
from support.measure_across import BASE, make_measured
from support.measure_runs import make_fit, make_judgement, make_pairs

from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.across import compare_stacks

FAST = (8.0, 8.1, 7.95, 8.02)  # 1.25x
FASTER = (6.66, 6.75, 6.62, 6.68)  # 1.5x
FAST_AGAIN = (8.01, 8.09, 7.93, 8.04)
NOISY = (6.5, 8.9, 7.0, 9.6)


def across(a=FAST, b=FASTER, **changes):
    return compare_stacks(make_measured("a", a), make_measured("b", b, **changes))


def test_faster_and_slower_need_the_whole_interval_on_one_side_of_one():
    there, back = across(), across(FASTER, FAST)
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert there.statement == (
        "B's stack is faster than A's: 1.20x (95% interval 1.19 to 1.21, 4 and 4 pairs, each "
        "against its own baseline)"
    )
    assert 1 < there.low < there.speedup < there.high
    assert back.statement.startswith("B's stack is slower than A's: 0.83x (95% interval")
    assert math.isclose(there.low * back.high, 1)
    assert across(b=NOISY).statement.startswith("inconclusive: which stack is faster cannot")


def test_a_tiny_sure_gain_is_said_to_lie_within_the_band():
    a, b = (
        [base / gain for base, gain in zip(BASE, gains, strict=True)]
        for gains in ([1.25, 1.251, 1.2505, 1.2502], [1.263, 1.264, 1.2635, 1.2632])
    )
    found = across(a, b)
    assert found.verdict == "faster"
    assert found.statement.endswith("(within the 5% band)")


def test_no_difference_needs_the_interval_inside_the_band():
    found = across(b=FAST_AGAIN)
    assert found.verdict == "no difference"
    assert found.statement.startswith(
        "no measurable difference between the stacks (within 5%): 1.00x"
    )


def test_each_side_counts_the_pairs_that_its_own_verdict_rests_on():
    assert "4 and 8 pairs" in across(b=FASTER * 2, baseline=BASE * 2).statement
    late = attrs.evolve(
        make_measured("b", FASTER), runs=tuple(make_pairs((*BASE, 10.0), (*FASTER, 99.0)))
    )
    assert compare_stacks(make_measured("a", FAST), late) == across()


def to_target(id_, walls):
    runs = [
        attrs.evolve(run, fits=(make_fit(seconds_to_target=run.wall_seconds / 2),))
        for run in make_pairs(BASE, walls)
    ]
    return make_measured(id_, walls, runs=runs, judgement=make_judgement(equivalence="changes"))


def projected(id_, walls):
    runs = [
        attrs.evolve(
            run, wall_seconds=1.0,
            fits=(make_fit(complete=False, projected_seconds=run.wall_seconds),),
        ) for run in make_pairs(BASE, walls)
    ]  # fmt: skip
    return make_measured(id_, walls, runs=runs, comparison={"kind": ComparisonKind.STEADY})


@pytest.mark.parametrize(
    ("measured", "words"), [(to_target, "to the target"), (projected, "(projected)")]
)
def test_the_times_are_compared_that_the_own_verdicts_are_about(measured, words):
    found = compare_stacks(measured("a", FAST), measured("b", FASTER))
    assert found.statement.startswith(f"B's stack is faster than A's {words}: 1.20x")


def test_baselines_that_differ_are_pointed_out():
    found = across(b=[2 * seconds for seconds in FASTER], baseline=[2 * s for s in BASE])
    assert "; the baselines differ (median 10.03 s in A, 20.05 s in B)" in found.statement
