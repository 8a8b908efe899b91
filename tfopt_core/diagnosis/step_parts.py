"""Split the time of a step into input, dispatch and compute, from timed loops. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import attrs

from tfopt_core.diagnosis.results import Round, StepPart
from tfopt_core.training.messages import Block


@attrs.frozen
class TimedEpoch:
    """The steps of an epoch, or of the beginning of one that was stopped (`complete` is False)."""

    blocks: tuple[Block, ...]
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

    def are_over(self, most: float, calls: int, seconds: float, traced: int = 0) -> bool:
        """Return whether a loop ends that has made so many calls in so many seconds.

        :param most: `seconds` at the end of an epoch, `at_most` within one.
        :param traced: how many of the calls traced, and so tell nothing of a step.
        """
        enough = calls >= self.calls or (calls > traced and seconds >= self.longest)
        return enough and seconds >= most


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
    steps that were seen if its length is unknown. Steps that were traced are left out.

    :raises ValueError: if no step is left.
    """
    whole = [epoch for epoch in epochs if epoch.complete]
    seconds = [_epoch_seconds(epoch, steps_per_epoch) for epoch in whole or epochs]
    steps = sum(count for _, count in seconds)
    if not steps:
        raise ValueError("no step was timed")
    return math.fsum(total for total, _ in seconds) / steps


def without_waits(epochs: Sequence[TimedEpoch]) -> list[TimedEpoch] | None:
    """Return the epochs of a loop without the waits of their ends, which few of them have by chance
    (`tfopt_core.trials.epoch_ends`); None if they cannot be told from the rest.

    The end of an epoch is in the first block of the next one, which takes no longer than that of
    the first epoch.
    """
    first, *later = epochs
    if not first.blocks or first.blocks[0].cold == "trace":
        return None
    return [first, *(_begun_like(first.blocks[0], epoch) for epoch in later)]


def _begun_like(start: Block, epoch: TimedEpoch) -> TimedEpoch:
    if not epoch.blocks:
        return epoch
    own, *rest = epoch.blocks
    longest = max(start.seconds, own.steps * start.seconds / start.steps)
    own = attrs.evolve(own, seconds=min(own.seconds, longest))
    return attrs.evolve(epoch, blocks=(own, *rest))


def _epoch_seconds(epoch: TimedEpoch, steps_per_epoch: int | None) -> tuple[float, int]:
    """Return the seconds of an epoch's steps, and how many steps these are."""
    steady = [block for block in epoch.blocks if block.cold != "trace"]
    seconds, steps = _sum(steady)
    if epoch.complete or len(steady) < 2 or steps_per_epoch is None:
        return seconds, steps
    first, *rest = steady
    if first is not epoch.blocks[0]:
        return seconds, steps
    rest_seconds, rest_steps = _sum(rest)
    extra = max(0.0, first.seconds - rest_seconds / rest_steps * first.steps)
    # the steps that were seen carry their share of the beginning
    return seconds - extra + extra * steps / max(steps, steps_per_epoch), steps


def _sum(blocks: Sequence[Block]) -> tuple[float, int]:
    return math.fsum(block.seconds for block in blocks), sum(block.steps for block in blocks)


def with_first_epoch(step_seconds: float, filling_seconds: float, epochs: int) -> float:
    """Return the seconds of a step over a training whose first epoch fills a cache."""
    return (filling_seconds + step_seconds * (epochs - 1)) / epochs
