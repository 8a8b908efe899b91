"""From counters to causes: what disturbs is said with its figure, what a run does itself is not."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measure_runs import make_run

from tfopt_core.measurement.busy import (
    busiest_processes,
    busy_causes,
    cpu_seconds_of_others,
    watch_idle,
)
from tfopt_core.records.counters import Counters
from tfopt_core.statistics.disturbance import causes, disturbance, disturbed_in_words

START = Counters(
    seconds=100.0, cpus=2,
    cpu_seconds={"total": 200.0, "busy": 50.0, "steal": 1.0},
    stall_seconds={"cpu some": 5.0, "io full": 1.0, "memory some": 2.0, "memory full": 1.0},
    throttled_seconds=3.0, thermal_throttles=7, swapped_pages=40,
)  # fmt: skip


def ten_seconds_later(busy=0.0, steal=0.0, stalls=None, own_stalls=None, **changes):
    """Ten seconds of two CPUs, in which these amounts were added."""
    earlier = START.cpu_seconds
    return attrs.evolve(
        START,
        seconds=110.0,
        cpu_seconds={
            "total": earlier["total"] + 20, "busy": earlier["busy"] + busy,
            "steal": earlier["steal"] + steal,
        },
        stall_seconds={k: v + (stalls or {}).get(k, 0) for k, v in START.stall_seconds.items()},
        own_stall_seconds=own_stalls or {},
        **changes,
    )  # fmt: skip


def test_a_quiet_run_has_all_figures_and_no_cause():
    figures = disturbance(START, ten_seconds_later(busy=12.0), 11.5)
    assert figures["other_cpu_share"] == pytest.approx(0.025)
    assert figures["steal_share"] == figures["swapped_pages"] == 0
    assert causes(figures) == ()


@pytest.mark.parametrize(
    ("later", "own", "said"),
    [
        (ten_seconds_later(steal=2.4), 0.0, "steal 12% of CPU time"),
        (ten_seconds_later(busy=9.0), 2.0, "other processes took 35% of the CPUs"),
        (ten_seconds_later(throttled_seconds=3.8), 0.0, "throttled 4% of the time"),
        (ten_seconds_later(stalls={"memory full": 0.4}), 0.0, "memory pressure 4% of the time"),
        (ten_seconds_later(thermal_throttles=10), 0.0, "thermal throttling 3 times"),
        (ten_seconds_later(thermal_throttles=8), 0.0, "thermal throttling 1 time"),
        (ten_seconds_later(swapped_pages=40 + 257), 0.0, "swapping"),
    ],
)
def test_each_cause_is_said_with_its_figure(later, own, said):
    assert causes(disturbance(START, later, own)) == (said,)


def test_several_causes_are_all_said():
    later = ten_seconds_later(busy=9.0, steal=2.4, swapped_pages=400)
    assert len(causes(disturbance(START, later, 2.0))) == 3


def test_what_the_runs_own_threads_do_is_recorded_but_no_cause():
    later = ten_seconds_later(busy=19.0, stalls={"cpu some": 9.0, "io full": 3.0})
    figures = disturbance(START, later, 19.0)
    assert figures["cpu_pressure_share"] == pytest.approx(0.9)
    assert figures["io_stall_share"] == pytest.approx(0.3)
    assert causes(figures) == ()


def test_without_the_own_cpu_time_nothing_is_said_of_others():
    figures = disturbance(START, ten_seconds_later(busy=19.0), None)
    assert "other_cpu_share" not in figures
    assert causes(figures) == ()


def test_an_own_group_that_waits_for_memory_counts_though_the_machine_does_not():
    before = attrs.evolve(START, own_stall_seconds={"memory full": 1.0})
    figures = disturbance(before, ten_seconds_later(own_stalls={"memory full": 2.0}), 0.0)
    assert figures["memory_stall_share"] == pytest.approx(0.1)


def test_what_the_system_does_not_tell_is_absent():
    assert disturbance(Counters(seconds=1.0), Counters(seconds=9.0), 1.0) == {}


def test_an_interval_too_short_for_ticks_has_counts_but_no_shares():
    later = attrs.evolve(ten_seconds_later(steal=2.0, swapped_pages=41), seconds=100.1)
    assert disturbance(START, later, 0.0) == {"swapped_pages": 1.0, "thermal_throttles": 0.0}


def test_counters_that_fell_are_absent():
    later = ten_seconds_later(steal=-0.5, throttled_seconds=0.0, swapped_pages=0)
    figures = disturbance(START, later, 0.0)
    assert not {"steal_share", "throttled_share", "swapped_pages"} & figures.keys()


@given(st.floats(0, 100), st.floats(0, 100), st.floats(-10, 1e9))
def test_shares_lie_between_nothing_and_all(busy, steal, own):
    figures = disturbance(START, ten_seconds_later(busy=busy, steal=steal), own)
    assert all(0 <= share <= 1 for name, share in figures.items() if name.endswith("share"))


def disturbed_runs(*shares):
    return [
        attrs.evolve(make_run("full", round_, 10.0), disturbance={"steal_share": share})
        for round_, share in enumerate(shares)
    ]


def test_the_warning_counts_the_disturbed_runs_and_names_the_worst_figure():
    assert disturbed_in_words(disturbed_runs(0.05, 0.0, 0.12, 0.01)) == (
        "2 of 4 runs were disturbed: at worst steal 12% of CPU time"
    )
    assert disturbed_in_words(disturbed_runs(0.05, 0.0)) == (
        "1 of 2 runs were disturbed: steal 5% of CPU time"
    )
    assert disturbed_in_words(disturbed_runs(0.01, 0.0)) is None
    assert disturbed_in_words([]) is None


def test_a_run_that_was_set_aside_disturbs_nothing_any_more():
    first, second = disturbed_runs(0.5, 0.0)
    assert disturbed_in_words([attrs.evolve(first, status="repeated"), second]) is None


def test_a_busy_machine_is_said_with_who_is_at_work():
    later = ten_seconds_later(busy=12.0)
    assert busy_causes(START, later) == (
        "the machine is busy: other processes use 60% of 2 CPUs; figures will be noisy, "
        "close what else runs",
    )
    assert (
        "other processes (ffmpeg, cc1) use 60%" in busy_causes(START, later, ["ffmpeg", "cc1"])[0]
    )


def test_what_cannot_be_closed_is_said_without_that_advice():
    assert busy_causes(START, ten_seconds_later(busy=1.0, steal=2.4)) == (
        "the machine is busy: steal 12% of CPU time; figures will be noisy",
    )


def test_an_idle_machine_is_worth_no_word():
    assert busy_causes(START, ten_seconds_later(busy=1.0)) == ()


def test_a_system_that_tells_nothing_is_not_called_busy(tmp_path):
    assert watch_idle(0.0, tmp_path) == ()


def test_the_three_processes_that_compute_most_are_named_and_no_idle_one():
    readings = iter([
        {(1, "idle"): 5.0, (2, "video"): 1.0, (3, "cc"): 0.0, (4, "index"): 2.0, (5, "sync"): 0.0},
        {(1, "idle"): 5.0, (2, "video"): 2.0, (3, "cc"): 0.9, (4, "index"): 2.7, (5, "sync"): 0.6,
         (6, "new"): 9.0},
    ])  # fmt: skip
    slept = []
    names = busiest_processes(1.0, lambda: next(readings), slept.append)
    assert names == ("video", "cc", "index")
    assert slept == [1.0]
    readings = iter([{(1, "idle"): 5.0}, {(1, "idle"): 5.01}])
    assert busiest_processes(1.0, lambda: next(readings), slept.append) == ()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are Linux's")
def test_what_another_process_computes_is_read_by_its_name():
    with subprocess.Popen([sys.executable, "-c", "for i in range(10**6): pass\ninput()"],
                          stdin=subprocess.PIPE) as process:  # fmt: skip
        while not any(
            pid == process.pid and "python" in name and seconds > 0
            for (pid, name), seconds in cpu_seconds_of_others().items()
        ):
            assert process.poll() is None
        process.kill()


def test_where_only_the_stack_is_hit_it_may_be_its_own_doing():
    def runs(*variants):
        return [
            attrs.evolve(make_run(v, i, 10.0), disturbance={"swapped_pages": 900.0} if hit else {})
            for i, (v, hit) in enumerate(variants)
        ]

    both = [("baseline", True), ("full", True), ("baseline", False), ("full", True)]
    assert "own doing" not in disturbed_in_words(runs(*both))
    stack = [("baseline", False), ("full", True), ("baseline", False), ("full", True)]
    assert "only with the whole stack: it may be its own doing" in disturbed_in_words(runs(*stack))
