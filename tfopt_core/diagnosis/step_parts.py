"""Split the time of a step into input, dispatch and compute, from timed loops. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.diagnosis.recorder import Call, TimedEpoch
from tfopt_core.records.diagnosis import Round, StepPart
from tfopt_core.statistics.intervals import median

# Into so many blocks the calls of an even loop are put, each call its own where there are fewer.
BLOCKS = 20


@attrs.frozen(kw_only=True)
class Parts:
    """A step of the real loop, taken apart; the three parts sum to `step_seconds`. `data_seconds`
    is what a batch takes when the data are read alone, and never more than a real step.

    `dispatch_known` is False where no graph loop could be timed: then `compute` holds both.
    """

    step_seconds: float
    input: StepPart
    dispatch: StepPart
    compute: StepPart
    data_seconds: float
    dispatch_known: bool


def parts_of(rounds: Sequence[Round]) -> Parts:
    """Return the parts of a step, from at least one round.

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
        StepPart(
            seconds=share * step,
            share=share,
            low=min(one[place] for one in shares),
            high=max(one[place] for one in shares),
        )
        for place, share in enumerate(_shares(cached, graph))
    ]
    # a real step shows that a batch can be read in its time, whatever else was going on
    data = min(1.0, median([round_.data / round_.real for round_ in rounds]))
    return Parts(
        step_seconds=step, input=parts[0], dispatch=parts[1], compute=parts[2],
        data_seconds=step * data, dispatch_known=known,
    )  # fmt: skip


def _cached(round_: Round) -> float:
    """Return what is left of a real step without input, as a share."""
    return round_.cached / round_.real


def _graph(round_: Round) -> float:
    """Return what is left of a step on a cached batch without dispatch, as a share."""
    return 1.0 if round_.graph is None else round_.graph / round_.cached


def _shares(cached: float, graph: float) -> tuple[float, float, float]:
    """Input, dispatch and compute as shares; below 0 where a loop was slower than the real one."""
    return 1 - cached, cached * (1 - graph), cached * graph


def seconds_a_step(epochs: Sequence[TimedEpoch], steps_per_epoch: int | None) -> float:
    """Return seconds of a step over a loop's epochs, at least one.

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


def even_seconds_a_step(epochs: Sequence[TimedEpoch], steps_per_epoch: int | None) -> float:
    """The same for a loop whose steps are all alike: the median over blocks of calls, so that a
    moment in which something else ran counts for nothing.

    :raises ValueError: if no call is left.
    """
    firsts, rest = [], []
    for epoch in epochs:
        first, *others = _spans(epoch)
        firsts.append(first)
        rest += [(seconds, call.steps) for seconds, call in others if _counts(call)]
    if not rest:
        return seconds_a_step(epochs, steps_per_epoch)
    size = max(1, len(rest) // BLOCKS)
    blocks = [rest[start : start + size] for start in range(0, len(rest), size)]
    usual = median([_rate(block) for block in blocks])
    beginnings = [max(0.0, s - usual * call.steps) for s, call in firsts if _counts(call)]
    steps = steps_per_epoch or sum(count for _, count in rest) / len(epochs)
    return usual + (median(beginnings) / steps if beginnings else 0.0)


def _spans(epoch: TimedEpoch) -> list[tuple[float, Call]]:
    """Return the seconds of each call: what lies between two calls belongs to the second."""
    ends = [epoch.begin, *(call.end for call in epoch.calls)]
    return [
        ((call.end - begin) / 1e9, call) for begin, call in zip(ends, epoch.calls, strict=False)
    ]


def _counts(call: Call) -> bool:
    return call.steps > 0 and not call.traced


def _rate(calls: Sequence[tuple[float, int]]) -> float:
    return math.fsum(seconds for seconds, _ in calls) / sum(steps for _, steps in calls)


def _epoch_seconds(epoch: TimedEpoch, steps_per_epoch: int | None) -> tuple[float, int]:
    """Return seconds of an epoch's steps, and how many steps these are."""
    spans = _spans(epoch)
    kept = [(seconds, call.steps) for seconds, call in spans if _counts(call)]
    total, steps = math.fsum(seconds for seconds, _ in kept), sum(count for _, count in kept)
    if epoch.complete or len(kept) < 2 or spans[0][1].traced or steps_per_epoch is None:
        return total, steps
    (first, first_steps), *rest = kept
    extra = max(0.0, first - _rate(rest) * first_steps)
    # as if the steps seen were their share of a whole epoch
    return total - extra + extra * steps / max(steps, steps_per_epoch), steps


def with_first_epoch(step_seconds: float, filling_seconds: float, epochs: int) -> float:
    """Return seconds of a step over a training whose first epoch fills a cache."""
    return (filling_seconds + step_seconds * (epochs - 1)) / epochs


def share_of_peak(
    operations: float | None, rounds: Sequence[Round], dtype: str, *, whole_step: bool
) -> float | None:
    """Return the share of the matrix-product peak that a step reaches, None if not countable.

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
