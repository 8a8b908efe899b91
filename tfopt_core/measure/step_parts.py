"""From timed loops to the parts of a step: input, dispatch, compute. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.measure.statistics import median
from tfopt_core.training.recorder import TimedEpoch


@attrs.frozen(kw_only=True)
class Round:
    """Seconds of a step in each of the loops, timed one after another.

    `real` is `fit` over the workload's data; `cached` the same over one batch in memory, so
    dispatch and compute; `graph` steps in one graph over that batch, so compute alone, None where
    that cannot be done; `data` a batch read and not used. `peaks` are operations a second of a
    matrix product, by dtype.
    """

    real: float
    cached: float
    graph: float | None
    data: float
    peaks: dict[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Part:
    """Seconds that a step spends on one thing, and its share: over all rounds, and the least and
    the most that a single round says."""

    seconds: float
    share: float
    low: float
    high: float

    @property
    def within_noise(self) -> bool:
        """Whether a round says that there is none of it."""
        return self.low <= 0


@attrs.frozen(kw_only=True)
class Parts:
    """A step of the real loop, taken apart; the three parts sum to `step_seconds`.

    `dispatch_known` is False where no graph loop could be timed: then `compute` holds both.
    """

    step_seconds: float
    input: Part
    dispatch: Part
    compute: Part
    data_seconds: float
    dispatch_known: bool


def parts_of(rounds: Sequence[Round]) -> Parts:
    """The parts of a step, from at least one round.

    The loops of a round are compared with each other only, since the machine's speed may drift
    by the next one: what is pooled over the rounds, by the median, are ratios.
    """
    step = median([round_.real for round_ in rounds])
    known = all(round_.graph is not None for round_ in rounds)
    shares = [_shares(_cached(round_), _graph(round_)) for round_ in rounds]
    # a loop that does less is never the slower one, but for noise
    cached, graph = (
        min(1.0, median([left(round_) for round_ in rounds])) for left in (_cached, _graph)
    )
    parts = [
        Part(
            seconds=share * step,
            share=share,
            low=min(one[place] for one in shares),
            high=max(one[place] for one in shares),
        )
        for place, share in enumerate(_shares(cached, graph))
    ]
    return Parts(
        step_seconds=step, input=parts[0], dispatch=parts[1], compute=parts[2],
        data_seconds=step * median([r.data / r.real for r in rounds]), dispatch_known=known,
    )  # fmt: skip


def _cached(round_: Round) -> float:
    """What is left of a real step without input, as a share."""
    return round_.cached / round_.real


def _graph(round_: Round) -> float:
    """What is left of a step on a cached batch without dispatch, as a share."""
    return 1.0 if round_.graph is None else round_.graph / round_.cached


def _shares(cached: float, graph: float) -> tuple[float, float, float]:
    """Input, dispatch and compute as shares; below 0 where a loop was slower than the real one."""
    return 1 - cached, cached * (1 - graph), cached * graph


def seconds_a_step(epochs: Sequence[TimedEpoch], steps_per_epoch: int | None) -> float:
    """Seconds of a step over a loop's epochs, at least one.

    Whole epochs count as they are, their beginning included: filling a shuffle buffer is part of
    what an epoch's steps take. Where there is none, the beginning of one that was stopped is
    spread over the steps of a whole epoch, or over those that were seen where its length is
    unknown. Calls that traced are left out.

    :raises ValueError: if no call is left.
    """
    whole = [epoch for epoch in epochs if epoch.complete]
    seconds = [_epoch_seconds(epoch, steps_per_epoch) for epoch in whole or epochs]
    steps = sum(count for _, count in seconds)
    if not steps:
        raise ValueError("no step was timed")
    return math.fsum(total for total, _ in seconds) / steps


def _epoch_seconds(epoch: TimedEpoch, steps_per_epoch: int | None) -> tuple[float, int]:
    """Seconds of an epoch's steps, and how many steps these are."""
    spans, begin = [], epoch.begin
    for call in epoch.calls:
        spans.append(((call.end - begin) / 1e9, call))
        begin = call.end
    kept = [(span, call.steps) for span, call in spans if not call.traced and call.steps]
    total, steps = math.fsum(span for span, _ in kept), sum(count for _, count in kept)
    if epoch.complete or len(kept) < 2 or spans[0][1].traced or steps_per_epoch is None:
        return total, steps
    (first, first_steps), *rest = kept
    usual = math.fsum(span for span, _ in rest) / sum(count for _, count in rest)
    extra = max(0.0, first - usual * first_steps)
    # as if the steps seen were their share of a whole epoch
    return total - extra + extra * steps / max(steps, steps_per_epoch), steps


def with_first_epoch(step_seconds: float, filling_seconds: float, epochs: int) -> float:
    """Seconds of a step over a training whose first epoch fills a cache."""
    return (filling_seconds + step_seconds * (epochs - 1)) / epochs


def share_of_peak(
    operations: float | None, rounds: Sequence[Round], dtype: str, *, whole_step: bool
) -> float | None:
    """The share of the matrix-product peak that a step's operations reach, None if not countable.

    :param operations: floating-point operations of a step.
    :param whole_step: over the whole real step, not while it computes.
    """
    reached = [
        operations / (seconds * round_.peaks[dtype])
        for round_ in rounds
        if operations and dtype in round_.peaks
        for seconds in [round_.real if whole_step else round_.graph or round_.cached]
    ]
    return median(reached) if reached else None
