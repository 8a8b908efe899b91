"""Whether to go on, from the runs so far."""

from __future__ import annotations

from support.measure_runs import make_judgement, make_pairs, make_run

from tfopt_core.measurement.groups import (
    failed_for_good,
    no_pair_possible,
    speedup_so_far,
)


def test_two_failures_without_a_success_are_for_good():
    once = [make_run("full", 0, 1.0, status="failed")]
    assert failed_for_good(once) == set()
    twice = [*once, make_run("full", 1, 1.0, status="failed")]
    assert failed_for_good(twice) == {"full"}
    assert no_pair_possible(twice)
    saved = [*twice, make_run("full", 2, 1.0)]
    assert failed_for_good(saved) == set()
    other = [make_run("without p", i, 1.0, status="failed") for i in range(2)]
    assert not no_pair_possible(other)


def test_the_speedup_so_far_is_that_of_complete_pairs():
    assert speedup_so_far([make_run("baseline", 0, 10.0)], make_judgement()) is None
    pairs = make_pairs([10.0, 10.0], [5.0, 5.0])
    assert abs(speedup_so_far(pairs, make_judgement()) - 2.0) < 1e-12
