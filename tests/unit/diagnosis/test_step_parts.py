"""From timed loops to the parts of a step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.diagnosis.results import Round
from tfopt_core.diagnosis.step_parts import (
    RecordingLimits,
    TimedEpoch,
    parts_of,
    seconds_a_step,
    with_first_epoch,
)
from tfopt_core.training.messages import Block

SECONDS = st.floats(1e-6, 10)


def round_(real, cached, graph, data=0.1):
    return Round(real=real, cached=cached, graph=graph, data=data)


def epoch(*seconds, complete=True, traced=(), steps=1):
    blocks = (
        Block(steps, span, cold="trace" if number in traced else "")
        for number, span in enumerate(seconds)
    )
    return TimedEpoch(tuple(blocks), complete)


def test_what_is_left_out_of_a_loop_is_what_a_step_spends_on_it():
    parts = parts_of([round_(10, 8, 6)])
    assert parts.step_seconds == 10
    assert (parts.input.share, parts.dispatch.share, parts.compute.share) == (
        pytest.approx((0.2, 0.2, 0.6))
    )
    assert parts.dispatch_known


def test_one_disturbed_round_of_five_changes_nothing_but_the_range():
    rounds = [round_(10, 8, 6)] * 4 + [round_(10, 30, 6)]
    parts = parts_of(rounds)
    assert parts.input.share == pytest.approx(0.2)
    assert parts.input.low == pytest.approx(-2.0)
    assert parts.input.within_noise


def test_a_loop_that_does_less_is_never_the_slower_one():
    parts = parts_of([round_(10, 11, 12)])
    assert (parts.input.share, parts.dispatch.share, parts.compute.share) == (0, 0, 1)


def test_reading_never_takes_longer_than_a_step_that_reads():
    assert parts_of([round_(10, 8, 6, data=11)]).data_seconds == pytest.approx(10)
    assert parts_of([round_(10, 8, 6, data=3)]).data_seconds == pytest.approx(3)


def test_without_a_graph_loop_compute_holds_dispatch_too():
    parts = parts_of([round_(10, 8, None)])
    assert not parts.dispatch_known
    assert parts.dispatch.share == 0
    assert parts.compute.share == pytest.approx(0.8)


@given(st.lists(st.builds(round_, SECONDS, SECONDS, SECONDS, SECONDS), min_size=1, max_size=7))
def test_the_parts_sum_to_a_whole_step_and_none_is_negative(rounds):
    parts = parts_of(rounds)
    each = [parts.input.share, parts.dispatch.share, parts.compute.share]
    assert sum(each) == pytest.approx(1)
    assert min(each) >= 0


STOPPED = epoch(10.1, 0.1, 0.1, 0.1, complete=False)


@pytest.mark.parametrize(
    ("epochs", "steps", "seconds"),
    [
        # the beginning is part of what its steps take
        ([epoch(1.0, 0.1, 0.1, 0.1)], 4, 1.3 / 4),
        # one that was stopped does not count beside whole ones
        ([epoch(0.5, 0.5), epoch(9.0, complete=False)], 2, 0.5),
        # the beginning of a long one is spread over all its steps, or those that were seen
        ([STOPPED], 1000, 0.1 + 10 / 1000),
        ([STOPPED], None, 10.4 / 4),
        # without steps that were traced
        ([epoch(5.0, 0.1, 0.1, traced=(0,))], 3, 0.1),
        ([epoch(0.8, 0.8, steps=8)], 16, 0.1),
    ],
)
def test_a_step_takes_its_share_of_the_epochs(epochs, steps, seconds):
    assert seconds_a_step(epochs, steps) == pytest.approx(seconds)


def test_a_loop_that_only_traced_has_no_figure():
    with pytest.raises(ValueError, match="no step"):
        seconds_a_step([epoch(5.0, traced=(0,))], 1)


def test_the_epoch_that_fills_a_cache_counts_once():
    assert with_first_epoch(1.0, 11.0, epochs=10) == pytest.approx(2.0)
    assert with_first_epoch(1.0, 11.0, epochs=1) == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("calls", "seconds", "traced", "over"),
    [
        (5, 0.2, 0, False),
        (5, 0.3, 0, True),
        (4, 5.0, 0, False),
        (1, 6.0, 0, True),
        (1, 6.0, 1, False),
        (2, 6.0, 1, True),
    ],
)
def test_a_loop_ends_after_enough_calls_of_which_a_slow_one_is_enough(calls, seconds, traced, over):
    limits = RecordingLimits(0.0, 0.3, calls=5, longest=6.0)
    assert limits.are_over(limits.at_most, calls, seconds, traced) is over
