"""Which loops are timed no further, and how long a look at a script's own loop takes."""

import itertools
from types import SimpleNamespace

import pytest

from tfopt_core.training.clock import BLOCK_STEPS
from tfopt_core.training.loops.report import Loop
from tfopt_core.trials import step_timing
from tfopt_core.trials.scripts.own_loop import LoopOfScript
from tfopt_core.trials.step_timing import (
    CLEAR_TURNS,
    LONGEST_BLOCK,
    MOST,
    StepTiming,
    _in_turns,
    _too_long_a_call,
    _too_slow,
)

PLAIN = Loop(1, False)


def timing(*blocks, cold_call=0.01, steps=1, why_not="", loop=PLAIN):
    return SimpleNamespace(
        blocks=list(blocks), cold_call=cold_call, cold_step=cold_call / steps,
        why_not=why_not, loop=loop, too_long=False,
    )  # fmt: skip


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
    blocks = [0.01] * len(slow.blocks)
    assert _too_slow(slow, [timing(*blocks, cold_call=0.012), slow]) is dropped


def test_a_loop_without_a_block_has_the_figure_of_its_cold_call():
    result = StepTiming(now=lambda: 0, cold_call=5.0, cold_step=2.5)
    assert result.step_seconds == 2.5


class Slow(StepTiming):
    """A loop whose every call takes so many seconds."""

    def __init__(self, seconds):
        clock = iter(range(0, 10**15, int(seconds * 1e9)))
        super().__init__(now=lambda: next(clock))
        self.calls = 0

        def call():
            self.calls += 1
            return 1

        self._call = call


@pytest.mark.parametrize(("seconds", "calls"), [(20.0, 2), (0.9 * LONGEST_BLOCK, 6)])
def test_a_call_of_many_seconds_is_made_twice_and_no_more(seconds, calls):
    slow = Slow(seconds)
    slow.make_cold_calls()
    _in_turns([slow], 0.5)
    assert slow.calls <= calls
    assert slow.step_seconds >= seconds


def test_a_slow_loop_is_compared_with_one_that_has_no_block_yet():
    assert _too_slow(timing(20.0), [timing(cold_call=0.1), timing(20.0)])
    assert not _too_slow(timing(20.0), [timing(cold_call=15.0), timing(20.0)])


@pytest.mark.parametrize(
    ("steps", "kind", "step_seconds", "too_long"),
    [
        (64, "chunked", 0.01, False),
        (64, "chunked", 0.1, True),
        (16, "keras", 0.1, False),
        (1, "chunked", 20.0, False),  # with XLA it may be faster by far
        (64, "resident", 20.0, False),  # its timed calls begin with one step
    ],
)
def test_many_slow_steps_a_call_are_not_timed(steps, kind, step_seconds, too_long):
    begun = [timing(cold_call=step_seconds), timing(why_not="its first call raised")]
    assert _too_long_a_call(Loop(steps, False, kind), begun) is too_long
    assert not _too_long_a_call(Loop(steps, False, kind), begun[1:])


@pytest.mark.parametrize(
    ("begun", "too_long"),
    [(Loop(64, False), False), (Loop(16, False), True), (Loop(640, False, "resident"), True)],
)
def test_xla_is_timed_where_as_many_slow_steps_a_call_were_made_without(begun, too_long):
    slow = timing(cold_call=0.1 * begun.steps, steps=begun.steps, loop=begun)
    assert _too_long_a_call(Loop(64, True), [slow]) is too_long


class Steady(Slow):
    """A loop whose blocks take these seconds a step in turn, again and again."""

    def __init__(self, *seconds):
        super().__init__(1.0)
        self.turns = itertools.cycle(seconds)

    def block(self):
        self.blocks.append(next(self.turns))
        self.seconds += BLOCK_STEPS * self.blocks[-1]


@pytest.mark.parametrize(
    ("loops", "blocks"),
    [
        ([(0.001,), (0.0012,)], CLEAR_TURNS),
        ([(0.001, 0.003), (0.0012, 0.0036)], CLEAR_TURNS),  # the machine is slower in each other
        ([(0.0012,), (0.001,), (0.0015,)], CLEAR_TURNS),
        ([(0.001,), (0.0011,)], MOST),  # too near
        ([(0.001, 0.001, 0.002), (0.0015,)], MOST),  # not in every turn
        ([(0.001,), (0.00102,), (0.002,)], MOST),  # two are alike
    ],
)
def test_a_choice_ends_once_one_loop_is_the_fastest_in_every_turn(loops, blocks):
    timings = [Steady(*seconds) for seconds in loops]
    _in_turns(timings, 10.0, choosing=True)
    assert max(len(timing.blocks) for timing in timings) == blocks


def test_figures_that_are_shown_are_taken_for_the_whole_time():
    timings = [Steady(0.001), Steady(0.0012)]
    _in_turns(timings, 10.0)
    assert [len(timing.blocks) for timing in timings] == [MOST, MOST]


def test_the_only_loop_that_can_be_chosen_is_timed_for_its_figure_and_no_longer():
    only, failed, behind = Steady(0.001), Steady(0.001), Steady(0.01)
    failed.why_not = "it failed"
    _in_turns([only, failed, behind], 10.0, choosing=True)
    assert [len(one.blocks) for one in (only, failed, behind)] == [CLEAR_TURNS, 0, 1]


@pytest.mark.parametrize(
    ("seconds", "warm", "updates", "known"),
    [
        (6.5, 5.0, 4000, True),
        (6.5, 4.0, 4000, False),
        (10.0, 0.0, 4000, True),  # each block traces something
        (29.0, 20.0, 9, False),  # a few slow updates
        (30.0, 20.0, 2, True),
        (30.0, 0.0, 1, False),
    ],
)
def test_a_look_ends_once_enough_was_seen_beside_tracing(seconds, warm, updates, known):
    own = LoopOfScript(job=None, session=None, guard=None)
    own.clock = SimpleNamespace(
        is_over=False, seconds=seconds, updates=updates, warm=[SimpleNamespace(seconds=warm)]
    )
    assert own.is_known(whole=False) is known
    # a trial makes as many updates as a run
    assert own.is_known(whole=True) is (seconds >= 30.0 and known)


def test_timed_calls_of_a_resident_loop_end_an_epoch_without_a_call_that_finds_no_batch():
    """Such a call makes a step on a batch that is not there, which took ten times as long."""
    pytest.importorskip("tensorflow")
    report, data, under_way = (SimpleNamespace() for _ in range(3))
    data.batches, under_way.done, passes = 3, 0, []

    def function(iterator):
        if iterator not in passes:
            passes.append(iterator)
            under_way.done = 0
        report.last_call = min(2, data.batches - under_way.done)
        assert report.last_call > 0
        under_way.done += report.last_call

    function.report, function.data, function.under_way = report, data, under_way
    call = step_timing._resident_calls(function)
    assert [call() for _ in range(5)] == [2, 1, 2, 1, 2]
    assert len(passes) == 3
