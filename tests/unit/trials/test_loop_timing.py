"""Which loops are timed no further."""

from types import SimpleNamespace

import pytest

from tfopt_core.trials.loop_timing import LONGEST_BLOCK, _in_turns, _Timing, _too_slow


def timing(*blocks, cold_call=0.01, steps=1, why_not=""):
    return SimpleNamespace(
        step_seconds=list(blocks), cold_call=cold_call, cold_step=cold_call / steps, why_not=why_not
    )


@pytest.mark.parametrize(
    ("slow", "dropped"),
    [
        (timing(cold_call=5.0), True),
        (timing(cold_call=5.0, steps=500), False),  # a call of many fast steps
        (timing(cold_call=0.1), False),  # so short a call may have been hit by anything
        (timing(0.07), True),
        (timing(0.03), False),
        (timing(0.03, 0.03), True),
    ],
)
def test_a_loop_that_is_far_behind_is_timed_no_further(slow, dropped):
    blocks = [0.01] * len(slow.step_seconds)
    assert _too_slow(slow, [timing(*blocks, cold_call=0.012), slow]) is dropped


def test_a_loop_without_a_block_has_the_figure_of_its_cold_call():
    result = _Timing(built=None, loop=None, now=lambda: 0, cold_call=5.0, cold_step=2.5).result()
    assert result.step_seconds == 2.5


class Slow(_Timing):
    """A loop whose every call takes so many seconds."""

    def __init__(self, seconds):
        clock = iter(range(0, 10**15, int(seconds * 1e9)))
        super().__init__(built=None, loop=None, now=lambda: next(clock))
        self.calls = 0

        def call():
            self.calls += 1
            return 1

        self._call = call


@pytest.mark.parametrize(("seconds", "calls"), [(20.0, 2), (0.9 * LONGEST_BLOCK, 6)])
def test_a_call_of_many_seconds_is_made_twice_and_no_more(seconds, calls):
    slow = Slow(seconds)
    slow.make_cold_calls()
    [timed] = _in_turns([slow], 0.5)
    assert slow.calls <= calls
    assert timed.step_seconds >= seconds


def test_a_slow_loop_is_compared_with_one_that_has_no_block_yet():
    assert _too_slow(timing(20.0), [timing(cold_call=0.1), timing(20.0)])
    assert not _too_slow(timing(20.0), [timing(cold_call=15.0), timing(20.0)])
