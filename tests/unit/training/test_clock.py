"""The clock around a train function, with a clock of the test's own."""

import re
from pathlib import Path

import pytest

from tfopt_core.training.clock import StepClock

MILLISECOND = 1_000_000


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def steps(clock, hands, count, milliseconds=5, traced=()):
    def train(iterator):
        hands.now += milliseconds * MILLISECOND
        if iterator in traced:
            hands.now += 1000 * MILLISECOND
            clock.traces += 1

    function = clock.timed(train)
    for number in range(count):
        function(number)


def epoch(clock, hands, number, *args, **kwargs):
    clock.on_epoch_begin(number)
    steps(clock, hands, *args, **kwargs)
    clock.on_epoch_end(0)


@pytest.mark.parametrize(
    ("settings", "epochs", "count", "given", "blocks"),
    [
        # ten steps and twenty milliseconds at least, and a tenth of a second at most
        ({}, 1, 25, {}, [(10, ""), (10, ""), (5, "")]),
        ({}, 1, 60, {"milliseconds": 1}, [(20, "")] * 3),
        ({}, 1, 5, {"milliseconds": 60}, [(2, ""), (2, ""), (1, "")]),
        ({}, 1, 15, {"traced": {0, 12}}, [(1, "trace"), (10, ""), (1, ""), (1, "trace"), (2, "")]),
        # under XLA the first short batch compiles again without a trace
        ({"steps_per_epoch": 12, "compiles": True}, 2, 12, {},
         [(10, ""), (1, ""), (1, "trace"), (10, ""), (2, "")]),
        ({"fills_cache": True}, 2, 10, {}, [(10, "cache"), (10, "")]),
        # turns end with blocks, in epochs shorter than one too
        ({}, 3, 4, {}, [(4, ""), (1, ""), (3, ""), (1, ""), (3, "")]),
    ],
)  # fmt: skip
def test_steps_are_put_into_blocks_and_a_cold_one_is_alone(settings, epochs, count, given, blocks):
    hands = Hands()
    clock = StepClock(now=hands, **settings)
    for number in range(epochs):
        epoch(clock, hands, number, count, **given)
    assert [(block.steps, block.cold) for block in clock.blocks] == blocks
    assert clock.steps == epochs * count
    assert sum(block.seconds for block in clock.blocks) == pytest.approx(hands.now / 1e9)


@pytest.mark.parametrize(("stopped_after", "cold"), [(2, "turn"), (1, "")])
def test_a_stop_behind_an_epochs_first_block_makes_the_next_start_unknown(stopped_after, cold):
    hands, stopped = Hands(), [0]
    clock = StepClock(now=hands, stopped=lambda: stopped[0])
    epoch(clock, hands, 0, 40)
    clock.on_epoch_begin(1)
    for block in range(4):
        steps(clock, hands, 10)
        if block + 1 == stopped_after:
            stopped[0] += 5
        clock.leave_out()
    clock.on_epoch_end(0)
    epoch(clock, hands, 2, 40)
    epoch(clock, hands, 3, 40)
    assert [(b.epoch, b.cold) for b in clock.blocks if b.cold] == ([(2, cold)] if cold else [])


def test_a_call_of_several_steps_ends_with_the_epoch():
    hands = Hands()
    clock = StepClock(now=hands, steps_per_call=4, steps_per_epoch=10)
    epoch(clock, hands, 0, 3)
    assert clock.steps == 10


def test_validation_is_timed_apart_and_belongs_to_no_step():
    hands = Hands()
    clock = StepClock(now=hands)
    clock.on_epoch_begin(0)
    steps(clock, hands, 10)
    clock.on_test_begin()
    hands.now += 300 * MILLISECOND
    clock.on_test_end()
    clock.on_epoch_end(0)
    assert clock.validation_seconds == [0.3]
    assert sum(block.seconds for block in clock.blocks) == pytest.approx(0.05)
    assert clock.epoch_ends == [350 * MILLISECOND]


@pytest.mark.parametrize("count", [10, 13])
def test_what_follows_the_last_step_of_an_epoch_belongs_to_its_edge(count):
    hands = Hands()
    clock = StepClock(now=hands, sync=lambda: steps(StepClock(now=hands), hands, 1, 1))
    clock.on_epoch_begin(0)
    steps(clock, hands, count)
    hands.now += 300 * MILLISECOND
    clock.on_epoch_end(0)
    clock.on_epoch_begin(1)
    assert clock.edge_seconds == [0.3]
    waits = -(-count // 10) * 0.001
    assert sum(block.seconds for block in clock.blocks) == pytest.approx(count * 0.005 + waits)


def test_the_device_is_waited_for_at_the_edges_of_blocks_only():
    waits = []
    hands = Hands()
    clock = StepClock(now=hands, sync=lambda: waits.append(hands.now))
    epoch(clock, hands, 0, 25)
    assert len(waits) == 3


@pytest.mark.promise(18, injected="every source file is searched for time.time")
def test_no_duration_is_read_from_a_clock_that_can_be_set():
    """The system's time may jump while a run lasts."""
    root = Path(__file__).parents[3]
    sources = [
        path for folder in ("tfopt_core", "plugins") for path in (root / folder).rglob("*.py")
    ]
    settable = re.compile(r"\btime\.time(_ns)?\(|from time import [^\n]*\btime(_ns)?\b")
    assert not [path.name for path in sources if settable.search(path.read_text("utf-8"))]
    assert settable.search("from time import perf_counter, time")


def test_a_trace_has_its_cause():
    hands = Hands()
    clock = StepClock(now=hands, replicas=2)
    clock.on_epoch_begin(0)
    clock.count_trace("(8, 3)")
    clock.count_trace("(8, 3)")  # of the second replica
    steps(clock, hands, 12)
    for shapes in ("(8, 5)", "(8, 5)", "(8, 3)"):
        clock.count_trace(shapes)
    assert [(trace.steps, trace.shapes, trace.cause) for trace in clock.step_traces] == [
        (0, "(8, 3)", "first"), (12, "(8, 5)", "shapes"), (12, "(8, 3)", "python"),
    ]  # fmt: skip
    assert clock.traces == 5
