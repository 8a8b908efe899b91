"""Which loops are timed no further."""

from types import SimpleNamespace

import pytest

from tfopt_core.trials.loop_timing import _Timing, _too_slow


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
