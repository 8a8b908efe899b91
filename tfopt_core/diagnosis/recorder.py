"""Record when the calls of a timed loop returned, epoch by epoch. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns

import attrs

Clock = Callable[[], int]


@attrs.frozen
class Call:
    """The end of a call in nanoseconds, the steps that it made, and whether it traced."""

    end: int
    steps: int
    traced: bool = False


@attrs.frozen
class TimedEpoch:
    """An epoch, or the beginning of an epoch that was stopped (`complete` is False)."""

    begin: int
    calls: tuple[Call, ...]
    complete: bool


@attrs.frozen
class RecordingLimits:
    """A loop ends with the epoch in which `seconds` pass, and within an epoch after `at_most`.

    It makes so many calls at least, but for slow ones: after `longest` seconds one is enough.
    """

    seconds: float
    at_most: float
    calls: int = 2
    longest: float = math.inf

    def enough(self, calls: int, seconds: float, traced: int = 0) -> bool:
        """Return whether so many calls are enough, of so many seconds in all.

        :param traced: how many of them traced, and so tell nothing of a step.
        """
        return calls >= self.calls or (calls > traced and seconds >= self.longest)


@attrs.define(eq=False)
class Recorder:
    """Records the calls of one loop, epoch by epoch, and decides when to stop.

    :param sync: waits for the device before a time is read at an epoch's edge; None on a CPU.
    """

    limits: RecordingLimits
    steps_per_epoch: int | None
    steps_per_call: int = 1
    sync: Callable[[], None] | None = None
    now: Clock = perf_counter_ns
    epochs: list[TimedEpoch] = attrs.field(factory=list)
    _begun: int | None = None
    _epoch_begin: int = 0
    _calls: list[Call] = attrs.field(factory=list)
    _made: int = 0
    _count: int = 0
    _traced: int = 0

    def begin_epoch(self) -> None:
        """Note that the first batch is about to be fetched."""
        self._epoch_begin = self.now()
        if self._begun is None:
            self._begun = self._epoch_begin
        self._calls, self._made = [], 0

    def called(self, *, traced: bool = False) -> bool:
        """Note that a call has returned. Return whether the loop should stop within the epoch."""
        steps = self.steps_per_call
        if self.steps_per_epoch is not None:
            steps = min(steps, max(0, self.steps_per_epoch - self._made))
        if self.sync is not None and not self._calls:
            self.sync()  # separates the epoch's beginning from the calls that follow
        end = self.now()
        self._calls.append(Call(end, steps, traced))
        self._made += steps
        self._count += 1
        self._traced += traced
        return self._is_over(self.limits.at_most, end)

    def end_epoch(self, *, complete: bool) -> bool:
        """Note that the epoch is over or was left. Return whether the loop should stop."""
        if self._calls:
            if self.sync is not None:
                self.sync()
                self._calls[-1] = attrs.evolve(self._calls[-1], end=self.now())
            self.epochs.append(TimedEpoch(self._epoch_begin, tuple(self._calls), complete))
        return self._is_over(self.limits.seconds, self.now())

    def _is_over(self, seconds: float, now: int) -> bool:
        elapsed = (now - (now if self._begun is None else self._begun)) / 1e9
        return elapsed >= seconds and self.limits.enough(self._count, elapsed, self._traced)
