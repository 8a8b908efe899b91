"""From counters to a line: what else used the machine is said with its figure."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measure_runs import make_run

from tfopt_core.statistics.disturbance import Counters, disturbance, seen_in_words

START = Counters(
    seconds=100.0, cpus=2, cpu_seconds={"total": 200.0, "busy": 50.0, "steal": 1.0},
    swapped_pages=40,
)  # fmt: skip


def ten_seconds_later(busy=0.0, steal=0.0, **changes):
    """Ten seconds of two CPUs, in which these amounts were added."""
    earlier = START.cpu_seconds
    return attrs.evolve(
        START, seconds=110.0,
        cpu_seconds={
            "total": earlier["total"] + 20, "busy": earlier["busy"] + busy,
            "steal": earlier["steal"] + steal,
        },
        **changes,
    )  # fmt: skip


def beside(*figures):
    return [
        attrs.evolve(make_run("full", round_, 10.0), disturbance=each)
        for round_, each in enumerate(figures)
    ]


def test_a_quiet_run_has_all_figures_and_no_line():
    figures = disturbance(START, ten_seconds_later(busy=12.0), 11.5)
    assert figures["other_cpu_share"] == pytest.approx(0.025)
    assert figures["steal_share"] == figures["swapped_pages"] == 0
    assert seen_in_words(beside(figures)) is None
    assert seen_in_words([]) is None


def test_one_line_names_steal_and_other_processes_at_their_worst():
    stolen = disturbance(START, ten_seconds_later(steal=2.4), 0.0)
    shared = disturbance(START, ten_seconds_later(busy=9.0), 2.0)
    assert seen_in_words(beside(stolen, {}, shared, {"steal_share": 0.05})) == (
        "beside the runs: steal of up to 12% of CPU time, other processes on up to 35% of the CPUs"
    )


def test_without_the_own_cpu_time_nothing_is_said_of_others():
    assert "other_cpu_share" not in disturbance(START, ten_seconds_later(busy=19.0), None)


def test_what_the_system_does_not_tell_is_absent():
    assert disturbance(Counters(seconds=1.0), Counters(seconds=9.0), 1.0) == {}


def test_an_interval_too_short_for_ticks_has_counts_but_no_shares():
    later = attrs.evolve(ten_seconds_later(steal=2.0, swapped_pages=41), seconds=100.1)
    assert disturbance(START, later, 0.0) == {"swapped_pages": 1.0}


def test_counters_that_fell_are_absent():
    later = ten_seconds_later(steal=-0.5, swapped_pages=0)
    assert not {"steal_share", "swapped_pages"} & disturbance(START, later, 0.0).keys()


@given(st.floats(0, 100), st.floats(0, 100), st.floats(-10, 1e9))
def test_shares_lie_between_nothing_and_all(busy, steal, own):
    figures = disturbance(START, ten_seconds_later(busy=busy, steal=steal), own)
    assert all(0 <= share <= 1 for name, share in figures.items() if name.endswith("share"))
