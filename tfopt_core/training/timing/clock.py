"""Where a fit's time goes: blocks of steps, epochs, validations. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.records.fit import Block

# A block is long enough for the clock (MEASUREMENT.md, section 3).
BLOCK_STEPS = 10
BLOCK_NANOSECONDS = 20_000_000


@attrs.define
class StepClock:
    """Times the calls of a train function, epoch by epoch.

    The time between two calls belongs to the second: fetching input, callbacks and Keras' own
    loop are part of a step.

    :param steps_per_call: steps that one call of the train function makes.
    :param steps_per_epoch: None where unknown; then the last call of an epoch counts in full.
    :param fills_cache: whether the first epoch over the data fills a cache.
    :param compiles: whether XLA compiles the step: for a smaller last batch it does so again,
        without a trace that could be counted.
    :param sync: waits for the device; called at block edges only.
    :param now: the clock, in nanoseconds.
    """

    steps_per_call: int = 1
    steps_per_epoch: int | None = None
    fills_cache: bool = False
    compiles: bool = False
    sync: Callable[[], None] | None = None
    now: Callable[[], int] = perf_counter_ns
    on_call: Callable[[int, int], None] | None = None
    blocks: list[Block] = attrs.field(factory=list)
    validation_seconds: list[float] = attrs.field(factory=list)
    epoch_begins: list[int] = attrs.field(factory=list)
    epoch_ends: list[int] = attrs.field(factory=list)
    edge_seconds: list[float] = attrs.field(factory=list)
    first_step_start: int | None = None
    _traces: int = 0
    _fresh_epoch: int = 0
    _tail_compiled: bool = False
    _epoch: int = 0
    _done: int = 0
    _steps: int = 0
    _start: int = 0
    _validation_start: int = 0
    _steps_end: int | None = None
    _validated: int = 0

    def count_trace(self) -> None:
        """Called by the code that is traced, so once for each trace."""
        self._traces += 1

    def new_data(self, epoch: int, steps_per_epoch: int | None) -> None:
        """From this epoch on the data are others: caches fill again, shapes may be new."""
        self._fresh_epoch, self.steps_per_epoch, self._tail_compiled = epoch, steps_per_epoch, False

    def begin_epoch(self, epoch: int) -> None:
        """An epoch's first step is about to fetch its input."""
        self._epoch, self._done, self._steps = epoch, 0, 0
        self._start = self.now()
        if self._steps_end is not None:
            edge = self._start - self._steps_end - self._validated
            self.edge_seconds.append(edge / 1e9)
        self._steps_end, self._validated = None, 0
        self.epoch_begins.append(self._start)
        if self.first_step_start is None:
            self.first_step_start = self._start

    def begin_within(self, steps: int) -> None:
        """So many steps of the epoch that has begun were made before this training."""
        self._done = steps

    def restart_block(self) -> None:
        """What happened since the epoch's begin is no step's time; no step was made yet."""
        self._start = self.now()

    def leave_out_since(self, begin: int) -> None:
        """What happened since this reading of `now`, after a step, is no step's time."""
        self._start += self.now() - begin

    @property
    def at_edge(self) -> bool:
        """Whether a block has just ended and none has begun."""
        return self._steps == 0

    def leave_out(self) -> None:
        """What happened since the last block's end is none of the next block's time."""
        assert self.at_edge
        self._start = self.now()

    @property
    def traces(self) -> int:
        """Traces and compilations so far."""
        return self._traces

    def timed(
        self, function: Callable[..., Any], steps_made: Callable[[], int] | None = None
    ) -> Callable[..., Any]:
        """The same train function with its calls timed.

        :param steps_made: asked after each call how many steps it made, where that varies; a call
            without a step is part of what the next one takes.
        """
        now = self.now

        def train_function(iterator: Any) -> Any:
            traces, begin = self._traces, now()
            result = function(iterator)
            steps = self._steps_of_call() if steps_made is None else steps_made()
            if steps_made is not None and not steps:
                return result
            self._done += steps
            compiled_tail = self._compiled_tail()
            if self._traces != traces or compiled_tail:
                # what ran before the traced call is a block of its own
                self._close(begin)
                self._steps = steps
                self._close(now(), "trace")
            else:
                self._steps += steps
                if self._steps >= BLOCK_STEPS and now() - self._start >= BLOCK_NANOSECONDS:
                    if self.sync is not None:
                        self.sync()
                    self._close(now())
            if self.on_call is not None:
                self.on_call(self._epoch, self._done)
            return result

        return train_function

    def end_steps(self) -> None:
        """The epoch's last step is done; its validation or its end follows. Safe to repeat."""
        if self._steps:
            if self.sync is not None:
                self.sync()
            self._close(self.now())
        if self._steps_end is None:
            self._steps_end = self.now()

    def begin_validation(self) -> None:
        """A validation within `fit` starts."""
        self.end_steps()
        self._validation_start = self.now()

    def end_validation(self) -> None:
        """A validation within `fit` is done."""
        took = self.now() - self._validation_start
        self._validated += took
        self.validation_seconds.append(took / 1e9)

    def end_epoch(self) -> None:
        """The epoch is done, its validation included."""
        self.end_steps()
        self.epoch_ends.append(self.now())

    @property
    def steps(self) -> int:
        """All steps that were made."""
        return sum(block.steps for block in self.blocks)

    def _compiled_tail(self) -> bool:
        """Whether this call was the first with the epoch's last batch, under XLA."""
        first = self.compiles and not self._tail_compiled and self._done == self.steps_per_epoch
        self._tail_compiled = self._tail_compiled or first
        return first

    def _steps_of_call(self) -> int:
        if self.steps_per_epoch is None:
            return self.steps_per_call
        return min(self.steps_per_call, max(0, self.steps_per_epoch - self._done))

    def _close(self, end: int, cold: str = "") -> None:
        if self._steps:
            if not cold and self.fills_cache and self._epoch == self._fresh_epoch:
                cold = "cache"
            seconds = (end - self._start) / 1e9
            self.blocks.append(Block(self._steps, seconds, self._epoch, cold))
            self._start = end
        self._steps = 0
