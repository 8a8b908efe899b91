"""What several replicas brought: from runs made by hand."""

from __future__ import annotations

import pytest
from support.measure_runs import make_pairs, make_run

from tfopt_core.records.results import Attribution, Comparison
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.verdicts.scaling import scaling

BOTH = {"replicas": 2, "workers": 2}


def compared(speedup=1.25):
    return Comparison(
        kind=ComparisonKind.END_TO_END, verdict=Verdict.FASTER, speedup=speedup, confidence=None,
        low=None if speedup is None else speedup - 0.04,
        high=None if speedup is None else speedup + 0.04,
        pairs=4, run_ids=(), statement="",
    )  # fmt: skip


def left_out(plugin, speedup):
    return Attribution(
        plugin=plugin, left_out=speedup, alone=None, credit=None, low=speedup - 0.2,
        high=speedup + 0.2, run_ids=(), statement="",
    )  # fmt: skip


def pairs(**changes):
    return make_pairs([10.0] * 4, [8.0] * 4, **changes)


def test_a_stack_on_one_device_has_no_scaling():
    assert scaling(pairs(), compared(), ()) is None


def test_efficiency_is_the_speedup_over_the_replicas():
    found = scaling(pairs(**BOTH), compared(1.24), ())
    assert found.efficiency == pytest.approx(0.62)
    assert (found.replicas, found.baseline_replicas, found.workers) == (2, 1, 2)
    assert found.plugin is None


def test_the_interval_is_that_of_the_speedup_that_is_told():
    found = scaling(pairs(**BOTH), compared(1.24), ())
    assert (found.low, found.high) == (pytest.approx(1.2), pytest.approx(1.28))
    runs = pairs(**BOTH) + [make_run("without spread", n, 9.0) for n in range(4)]
    found = scaling(runs, compared(2.0), (left_out("spread", 1.1),))
    assert (found.low, found.high) == (pytest.approx(0.9), pytest.approx(1.3))


def test_the_part_of_the_plugin_that_brings_the_replicas_is_taken_where_it_is_known():
    runs = pairs(**BOTH)
    runs += [make_run("without spread", n, 9.0) for n in range(4)]
    runs += [make_run("without other", n, 9.0, **BOTH) for n in range(4)]
    rows = (left_out("other", 1.9), left_out("spread", 1.1))
    found = scaling(runs, compared(2.0), rows)
    assert (found.plugin, found.speedup) == ("spread", 1.1)
    runs += [make_run("without late", n, 9.0) for n in range(4)]
    found = scaling(runs, compared(2.0), (*rows, left_out("late", 1.3)))
    assert (found.plugin, found.speedup) == ("spread", 1.1)


def test_communication_is_a_share_of_the_median_step():
    runs = pairs(**BOTH, step_seconds=0.012, communication_step_seconds=0.003)
    found = scaling(runs, compared(), ())
    assert found.communication_share == pytest.approx(0.25)


def test_communication_takes_no_more_than_the_whole_step():
    # timed alone, it may take longer than where computing hides it
    runs = pairs(**BOTH, step_seconds=0.002, communication_step_seconds=0.003)
    assert scaling(runs, compared(), ()).communication_share == 1.0


def test_communication_that_not_every_run_timed_is_not_told():
    runs = pairs(**BOTH, communication_step_seconds=0.003)
    runs.append(make_run("full", 5, 8.0, **BOTH))
    found = scaling(runs, compared(), ())
    assert found.communication_step_seconds is None
    assert found.communication_share is None


def test_without_a_verdict_there_is_no_efficiency():
    found = scaling(pairs(**BOTH), compared(None), ())
    assert found.speedup is found.low is found.high is None
    assert found.efficiency is None


def test_workers_of_a_chief_count_as_replicas():
    # its strategy counts one replica, however many workers compute
    found = scaling(pairs(replicas=1, workers=3), compared(1.5), ())
    assert found.replicas == 3
    assert found.efficiency == pytest.approx(0.5)


def test_a_baseline_that_failed_shows_no_scaling():
    runs = [run for run in pairs(**BOTH) if run.variant == "full"]
    assert scaling(runs, compared(), ()) is None
