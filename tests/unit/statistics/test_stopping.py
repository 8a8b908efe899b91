"""Whether to go on, from the runs so far."""

from __future__ import annotations

import attrs
from support.measure_runs import make_fit, make_judgement, make_pairs, make_run

from tfopt_core.statistics.verdicts.stopping import (
    failed_for_good,
    no_pair_possible,
    settled,
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


def test_a_look_sees_only_the_rounds_before_it():
    runs = make_pairs([10.0, 10.1, 9.9, 10.0], [8.0, 8.1, 7.95, 8.02])
    later = make_pairs([10.0] * 8, [8.0, 12.0] * 4)[8:]
    judgement = make_judgement(sequential=True)
    assert settled([*runs, *later], judgement, 4)
    assert not settled(make_pairs([10.0, 10.1, 9.9, 10.2], [8.0, 12.0, 9.0, 11.0]), judgement, 4)
    assert settled(make_pairs([10.0] * 12, [8.0, 12.0] * 6), judgement, 12)


def test_runs_that_were_cut_short_settle_no_quality_however_many_there_are():
    cut = [
        attrs.evolve(
            run,
            fits=(make_fit(complete=False, projected_seconds=run.wall_seconds, metrics={}),),
        )
        for run in make_pairs([10.0, 10.1, 9.9, 10.0], [8.0, 8.1, 7.95, 8.02])
    ]
    assert settled(cut, make_judgement(sequential=True, projected=True), 4)


def test_the_speedup_so_far_is_that_of_complete_pairs():
    assert speedup_so_far([make_run("baseline", 0, 10.0)], make_judgement()) is None
    pairs = make_pairs([10.0, 10.0], [5.0, 5.0])
    assert abs(speedup_so_far(pairs, make_judgement()) - 2.0) < 1e-12
