"""Record when the calls of timed loops returned, and split the time of a step into input, dispatch
and compute. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns

import attrs

from tfopt_core.records.diagnosis import Round, StepPart

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


@attrs.frozen(kw_only=True)
class Parts:
    """The parts of a step of the real loop; the three shares sum to 1.

    `data_seconds` is the time of a batch when the data are read alone, at most that of a real step.
    `dispatch_known` is False if no graph loop could be timed: `compute` then holds both.
    """

    step_seconds: float
    input: StepPart
    dispatch: StepPart
    compute: StepPart
    data_seconds: float
    dispatch_known: bool


def parts_of(rounds: Sequence[Round]) -> Parts:
    """Return the parts of a step, from at least one round.

    Loops are compared only within a round, since the machine's speed may drift until the next; the
    ratios are pooled over the rounds by the median.
    """
    step = median([round_.real for round_ in rounds])
    known = all(round_.graph is not None for round_ in rounds)
    shares = [_shares(_cached(round_), _graph(round_)) for round_ in rounds]
    # a loop that does less can be slower only by noise
    cached, graph = (
        min(1.0, median([left(round_) for round_ in rounds])) for left in (_cached, _graph)
    )
    parts = [
        StepPart(
            share=share,
            low=min(of_round[place] for of_round in shares),
            high=max(of_round[place] for of_round in shares),
        )
        for place, share in enumerate(_shares(cached, graph))
    ]
    # a real step shows that a batch can be read within its time
    data = min(1.0, median([round_.data / round_.real for round_ in rounds]))
    return Parts(
        step_seconds=step, input=parts[0], dispatch=parts[1], compute=parts[2],
        data_seconds=step * data, dispatch_known=known,
    )  # fmt: skip


def _cached(round_: Round) -> float:
    """Return the share of a real step that is left without input."""
    return round_.cached / round_.real


def _graph(round_: Round) -> float:
    """Return the share of a step on a cached batch that is left without dispatch."""
    return 1.0 if round_.graph is None else round_.graph / round_.cached


def _shares(cached: float, graph: float) -> tuple[float, float, float]:
    """Return input, dispatch and compute as shares, below 0 if a loop was slower than the real
    one."""
    return 1 - cached, cached * (1 - graph), cached * graph


def seconds_a_step(epochs: Sequence[TimedEpoch], steps_per_epoch: int | None) -> float:
    """Return the seconds of a step over a loop's epochs, at least one.

    Whole epochs count with their beginning, which may fill a shuffle buffer. Without a whole epoch
    the beginning of one that was stopped is spread over the steps of a whole epoch, or over the
    steps that were seen if its length is unknown. Calls that traced are left out.

    :raises ValueError: if no call is left.
    """
    whole = [epoch for epoch in epochs if epoch.complete]
    seconds = [_epoch_seconds(epoch, steps_per_epoch) for epoch in whole or epochs]
    steps = sum(count for _, count in seconds)
    if not steps:
        raise ValueError("no step was timed")
    return math.fsum(total for total, _ in seconds) / steps


def _spans(epoch: TimedEpoch) -> list[tuple[float, Call]]:
    """Return the seconds of each call; the time between two calls belongs to the second."""
    ends = [epoch.begin, *(call.end for call in epoch.calls)]
    return [
        ((call.end - begin) / 1e9, call) for begin, call in zip(ends, epoch.calls, strict=False)
    ]


def _counts(call: Call) -> bool:
    return call.steps > 0 and not call.traced


def _rate(calls: Sequence[tuple[float, int]]) -> float:
    return math.fsum(seconds for seconds, _ in calls) / sum(steps for _, steps in calls)


def _epoch_seconds(epoch: TimedEpoch, steps_per_epoch: int | None) -> tuple[float, int]:
    """Return the seconds of an epoch's steps, and how many steps these are."""
    spans = _spans(epoch)
    calls = [(seconds, call.steps) for seconds, call in spans if _counts(call)]
    total, steps = math.fsum(seconds for seconds, _ in calls), sum(count for _, count in calls)
    if epoch.complete or len(calls) < 2 or spans[0][1].traced or steps_per_epoch is None:
        return total, steps
    (first, first_steps), *rest = calls
    extra = max(0.0, first - _rate(rest) * first_steps)
    # the steps that were seen carry their share of the beginning
    return total - extra + extra * steps / max(steps, steps_per_epoch), steps


def with_first_epoch(step_seconds: float, filling_seconds: float, epochs: int) -> float:
    """Return the seconds of a step over a training whose first epoch fills a cache."""
    return (filling_seconds + step_seconds * (epochs - 1)) / epochs
