"""The time that this process has run, and the clock of a fit: blocks of steps, epochs, validations.

No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.training.messages import TURN, Block, StepTrace, TraceCause

_stopped_ns = 0


def running_ns() -> int:
    """Return the nanoseconds that this process has run, from an arbitrary begin."""
    return perf_counter_ns() - _stopped_ns


def stopped_ns() -> int:
    """Return the nanoseconds that this process was stopped."""
    return _stopped_ns


def leave_out_stopped(nanoseconds: int) -> None:
    """Note how long this process was stopped."""
    global _stopped_ns
    _stopped_ns += nanoseconds


# A block is long enough for the clock.
BLOCK_STEPS = 10
BLOCK_NANOSECONDS = 20_000_000
# A block of slow steps may have fewer: turns end with blocks. So the first call of an epoch is a
# block of its own where the epoch before had no block that ended within it.
LONG_BLOCK_NANOSECONDS = 100_000_000


@attrs.define
class StepClock:
    """Times the calls of a train function, epoch by epoch.

    The time between two calls belongs to the second: fetching input, callbacks and Keras' own
    loop are part of a step.

    :param steps_per_call: the steps that one call of the train function makes.
    :param steps_per_epoch: None if unknown; then the last call of an epoch counts in full.
    :param fills_cache: whether the first epoch over the data fills a cache.
    :param compiles: whether XLA compiles the step; it then compiles again for a smaller last
        batch, without a trace that could be counted.
    :param own_loop: whether a loop of tfopt's makes the steps, which may trace them several times.
    :param replicas: the devices that train together.
    :param sync: waits for the device; called at block edges only.
    :param now: the clock, in nanoseconds.
    :param stopped: how long this process was stopped, in nanoseconds.
    :param on_call: called after each call with the epoch and how many of its steps are done.
    :param traces: the number of traces so far.
    """

    steps_per_call: int = 1
    steps_per_epoch: int | None = None
    fills_cache: bool = False
    compiles: bool = False
    own_loop: bool = False
    replicas: int = 1
    sync: Callable[[], None] | None = None
    now: Callable[[], int] = running_ns
    stopped: Callable[[], int] = stopped_ns
    on_call: Callable[[int, int], None] = lambda epoch, done: None
    blocks: list[Block] = attrs.field(factory=list)
    validation_seconds: list[float] = attrs.field(factory=list)
    epoch_begins: list[int] = attrs.field(factory=list)
    epoch_ends: list[int] = attrs.field(factory=list)
    edge_seconds: list[float] = attrs.field(factory=list)
    step_traces: list[StepTrace] = attrs.field(factory=list)
    first_step_start: int | None = None
    traces: int = 0
    _tail_compiled: bool = False
    _short_epochs: bool = False
    _block_within: bool = True
    _epoch: int = 0
    _done: int = 0
    _steps: int = 0
    _last_end: int = 0
    _start: int = 0
    _validation_start: int = 0
    _start_cold: str = ""
    _stopped_before: int = 0
    _stopped_within: bool = False
    _steps_end: int | None = None
    _validated: int = 0

    def count_trace(self, shapes: str) -> None:
        """Count a trace for a batch of these shapes. Called by the code that is traced.

        Each of several replicas traces the step: theirs before the next step are one.
        """
        self.traces += 1
        steps = self.steps + self._steps
        earlier = {trace.shapes for trace in self.step_traces if trace.steps < steps}
        cause: TraceCause = "shapes"
        if not steps:
            cause = "first"
        elif shapes in earlier:
            cause = "loop" if self.own_loop else "python"
        trace = StepTrace(steps=steps, shapes=shapes, cause=cause)
        if self.replicas == 1 or trace not in self.step_traces:
            self.step_traces.append(trace)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note that an epoch's first step is about to fetch its input."""
        # the iterator of the epoch before, which ends now, waits for a thread that sleeps until a
        # time of day
        self._start_cold, self._stopped_within = TURN if self._stopped_within else "", False
        self._epoch, self._done, self._steps = epoch, 0, 0
        self._short_epochs, self._block_within = not self._block_within, False
        self._start = self.now()
        if self._steps_end is not None:
            edge = self._start - self._steps_end - self._validated
            self.edge_seconds.append(edge / 1e9)
        self._steps_end, self._validated = None, 0
        self.epoch_begins.append(self._start)
        if self.first_step_start is None:
            self.first_step_start = self._start

    @property
    def at_edge(self) -> bool:
        """Whether a block has just ended and none has begun."""
        return self._steps == 0

    def leave_out(self) -> None:
        """Leave out the time since the last block ended, in which the process may have been
        stopped."""
        assert self.at_edge
        self._start = self.now()
        if self.stopped() > self._stopped_before:
            self._stopped_before = self.stopped()
            # behind an epoch's first block that thread has hardly slept
            of_epoch = [block for block in self.blocks[-2:] if block.epoch == self._epoch]
            self._stopped_within = self._stopped_within or len(of_epoch) > 1

    def timed(
        self, function: Callable[..., Any], steps_made: Callable[[], int] | None = None
    ) -> Callable[..., Any]:
        """Return the train function with its calls timed.

        :param steps_made: returns how many steps the last call made, where that varies; the time
            of a call without steps belongs to the next one.
        """

        def train_function(iterator: Any) -> Any:
            traces, begin = self.traces, self.now()
            try:
                result = function(iterator)
            except StopIteration:  # the call may have made the epoch's last steps
                if steps_made is not None:
                    self._end_call(begin, traces, steps_made())
                raise
            steps = self._steps_of_call() if steps_made is None else steps_made()
            self._end_call(begin, traces, steps)
            return result

        return train_function

    def _end_call(self, begin: int, traces: int, steps: int) -> None:
        """Note that a call has made these steps.

        :param begin: when it began.
        :param traces: how many times the step had been traced by then.
        """
        if not steps:
            return
        self._done += steps
        # the first call with the epoch's smaller last batch, under XLA
        tail = self.compiles and not self._tail_compiled and self._done == self.steps_per_epoch
        self._tail_compiled = self._tail_compiled or tail
        if self.traces != traces or tail:
            # the steps before the traced call are a separate block
            self._close(begin)
            self._steps = steps
            self._close(self.now(), "trace")
        else:
            self._steps += steps
            least = BLOCK_NANOSECONDS if self._steps >= BLOCK_STEPS else LONG_BLOCK_NANOSECONDS
            self._last_end = self.now()
            is_long = self._last_end - self._start >= least
            self._block_within = self._block_within or is_long
            if is_long or (self._short_epochs and self._done == steps):
                self._close_steps()
        self.on_call(self._epoch, self._done)

    def end_steps(self) -> None:
        """Note that the epoch's last step is done. Safe to repeat."""
        if self._steps:
            self._close_steps()
        if self._steps_end is None:
            self._steps_end = self._start  # where the last block ended, or what is left out

    def on_test_begin(self, logs: Any = None) -> None:
        """Note that a validation within `fit` starts."""
        self.end_steps()
        self._validation_start = self.now()

    def on_test_end(self, logs: Any = None) -> None:
        """Note that a validation within `fit` is done."""
        took = self.now() - self._validation_start
        self._validated += took
        self.validation_seconds.append(took / 1e9)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Note that the epoch is done, with its validation."""
        self.end_steps()
        self.epoch_ends.append(self.now())

    @property
    def steps(self) -> int:
        """The number of steps that were made."""
        return sum(block.steps for block in self.blocks)

    def _steps_of_call(self) -> int:
        if self.steps_per_epoch is None:
            return self.steps_per_call
        return min(self.steps_per_call, max(0, self.steps_per_epoch - self._done))

    def _close_steps(self) -> None:
        """End a block where its last call ended, and the device has done what it was told.

        Between that and the end of the steps an iterator may end, which waits for a thread.
        """
        begin = self.now()
        if self.sync is not None:
            self.sync()
        self._close(self._last_end + self.now() - begin)

    def _close(self, end: int, cold: str = "") -> None:
        if self._steps:
            if not cold and self.fills_cache and self._epoch == 0:
                cold = "cache"
            cold, self._start_cold = cold or self._start_cold, ""
            seconds = (end - self._start) / 1e9
            in_turns = self.stopped() > 0
            self.blocks.append(Block(self._steps, seconds, self._epoch, cold, in_turns))
            self._start = end
        self._steps = 0
