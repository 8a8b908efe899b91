"""The total time of a run from its pieces: cut short, or in turns (docs/guide/measuring.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.records.fit import TURN, Block, FitOutcome

UNKNOWN_STEPS = "the number of steps of an epoch is not known"
NO_STEP = "no step was timed that is not part of the start-up"
NO_EDGE = "the run saw too few epochs begin to know what that costs"
# Of fewer starts nothing is projected: one may wait as long as the epoch itself, and the next one
# not at all (docs/decisions/0014).
LEAST_STARTS = 4


@attrs.frozen
class MeanStep:
    """The mean seconds of a step, stalls included. `error` is the relative standard error of that
    mean, infinite for too few blocks."""

    seconds: float
    error: float


@attrs.frozen
class Projection:
    """The projected seconds of the whole training, or why they are unknown."""

    seconds: float | None
    why_not: str = ""


def mean_step(blocks: Sequence[Block]) -> MeanStep | None:
    """Return the mean step over the warm blocks, of a run that took turns over those in turns.

    A mean, not a median: stalls are part of a training's time. The first block of a later epoch is
    left out, since it holds the cost of the epoch's start, such as filling a shuffle buffer again.
    If every block is the first of its epoch, all count.

    :returns: None without a warm block.
    """
    ordinary = [block for block in _but_first_of_later_epochs(blocks) if not block.cold]
    warm = ordinary or [block for block in blocks if not block.cold]
    warm = [block for block in warm if block.in_turns] or warm
    steps = sum(block.steps for block in warm)
    if not steps:
        return None
    seconds = math.fsum(block.seconds for block in warm) / steps
    return MeanStep(seconds, _relative_error(warm, seconds))


def first_of_later_epochs(blocks: Sequence[Block]) -> list[Block]:
    """Return the first block of each epoch but the first, of those that hold no trace."""
    return [block for block in _firsts(blocks)[1:] if not block.cold]


def project(outcome: FitOutcome) -> Projection:
    """Return the wall time of the whole training from its pieces, or why it is unknown.

    What is traced and fills a cache counts as it was observed, and all other steps at the mean
    step; so do the starts of epochs, what callbacks do at their ends, and validations. A run that
    was cut short needs some observed starts.
    """
    epochs, an_epoch = outcome.planned_epochs, outcome.steps_per_epoch
    if not outcome.cut_short:
        epochs = len(outcome.epoch_end_seconds)
    if an_epoch is None:
        # the first epoch may have counted them
        of_first = [block for block in outcome.blocks if block.epoch == outcome.blocks[0].epoch]
        if len(of_first) == len(outcome.blocks):
            return Projection(None, UNKNOWN_STEPS)
        an_epoch = sum(block.steps for block in of_first)
    step = mean_step(outcome.blocks)
    if step is None:
        return Projection(None, NO_STEP)
    starts = first_of_later_epochs(outcome.blocks)
    wanted = LEAST_STARTS if outcome.cut_short else 1
    if len(starts) < min(wanted, epochs - 1):
        return Projection(None, NO_EDGE)
    observed = [block for block in outcome.blocks if block.cold not in ("", TURN)]
    steps = epochs * an_epoch if outcome.cut_short else outcome.steps
    left = (steps - sum(block.steps for block in observed)) * step.seconds
    # the time of an epoch's first block beyond its steps
    of_starts = [block.seconds - block.steps * step.seconds for block in starts]
    cold_starts = [b for b in _firsts(outcome.blocks)[1:] if b.cold not in ("", TURN)]
    left += (epochs - 1 - len(cold_starts)) * _mean(of_starts)
    # callbacks also act at the end of the last epoch
    left += epochs * _mean(outcome.edge_seconds)
    seconds = outcome.setup_seconds + math.fsum(block.seconds for block in observed) + left
    return Projection(seconds + _validations(outcome, epochs))


def _firsts(blocks: Sequence[Block]) -> list[Block]:
    """Return the first block of each epoch."""
    first: dict[int, Block] = {}
    for block in blocks:
        first.setdefault(block.epoch, block)
    return list(first.values())


def _but_first_of_later_epochs(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks without the first of each later epoch, where the number changes."""
    return [
        block
        for before, block in zip((None, *blocks), blocks, strict=False)
        if before is None or before.epoch == block.epoch
    ]


def _relative_error(blocks: Sequence[Block], step_seconds: float) -> float:
    """Return the standard error of a ratio of two means, seconds over steps, relative to it."""
    count = len(blocks)
    if count < 2:
        return math.inf
    squares = math.fsum((b.seconds - b.steps * step_seconds) ** 2 for b in blocks)
    mean_seconds = math.fsum(b.seconds for b in blocks) / count
    return math.sqrt(squares / (count - 1) / count) / mean_seconds


def _validations(outcome: FitOutcome, epochs: int) -> float:
    """Return the seconds of all validations: the first traces, the others take the mean."""
    if not outcome.cut_short:
        return math.fsum(outcome.validation_seconds)
    first, *later = outcome.validation_seconds or (0.0,)
    return first + (epochs - 1) * (_mean(later) if later else first)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
