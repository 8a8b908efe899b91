"""Decide when a run may be cut short (docs/guide/measuring.md, "How many pairs")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.hooks import RunContext
from tfopt_core.records.fit import Block
from tfopt_core.statistics.timing.projection import first_of_later_epochs, mean_step

# Twenty blocks may last only 0.4 s, and a machine's speed drifts over longer times.
LEAST_SECONDS = 2.0
# No run is cut sooner for its budget alone.
SHORTEST_SECONDS = 8.0
# The standard error of the mean step below which a run may end, relative to it.
ENOUGH = 0.02
# Of fewer blocks the standard error is known too badly: of two it is often small by chance.
LEAST_BLOCKS = 5
# The longest that a run waits for that, or for an epoch's end: with the usual budget of ten minutes
# eight such runs take about a quarter of it, ...
LONGEST_SECONDS = 20.0
# ... and with another one as well.
SHARE_OF_BUDGET = 1 / 30


def longest_seconds(budget: float) -> float:
    """Return how many seconds of timed steps a run may take before it is cut in any case.

    :param budget: the budget of the whole measurement, in seconds.
    """
    return max(SHORTEST_SECONDS, budget * SHARE_OF_BUDGET)


def cut_rule(longest_seconds: float | None, run: RunContext) -> CutRule | None:
    """Return the rule for cutting a run's training short, None if it must train to its end. It must
    if its steps are unknown, since nothing could be projected then."""
    if longest_seconds is None or run.steps_per_epoch is None:
        return None
    return CutRule(
        epochs=run.epochs, steps_per_epoch=run.steps_per_epoch, longest_seconds=longest_seconds
    )


def warm_seconds(blocks: Sequence[Block]) -> float:
    """Return the seconds of all blocks that are samples of a step."""
    return math.fsum(block.seconds for block in blocks if not block.cold)


def first_warm_steps(blocks: Sequence[Block]) -> bool:
    """Return whether a block of steps has ended behind those that were traced: the rule of a run
    that is made for its peak memory."""
    return any(not block.cold for block in blocks)


@attrs.frozen(kw_only=True)
class CutRule:
    """Decides from its blocks so far whether a training may be cut short.

    :param epochs: the epochs of the whole training.
    :param steps_per_epoch: the steps of an epoch.
    :param longest_seconds: the seconds of warm blocks after which a training is cut in any case.
    """

    epochs: int
    steps_per_epoch: int
    longest_seconds: float = LONGEST_SECONDS

    def __call__(self, blocks: Sequence[Block]) -> bool:
        """Return whether to stop: the mean step is known and the start of a later epoch was timed,
        or `longest_seconds` have passed."""
        warm = warm_seconds(blocks)
        if warm < LEAST_SECONDS:
            return False
        if warm >= self.longest_seconds:
            return True
        if sum(not block.cold for block in blocks) < LEAST_BLOCKS:
            return False
        step = mean_step(blocks)
        if step is None or step.error >= ENOUGH:
            return False
        return not self.waits_for_epoch(blocks, self.longest_seconds - warm)

    def waits_for_epoch(
        self, blocks: Sequence[Block], seconds_left: float, starts: int = 1
    ) -> bool:
        """Return whether fewer starts of later epochs were seen, but one more will be in the
        seconds left."""
        wanted = min(starts, self.epochs - 1)
        if len(first_of_later_epochs(blocks)) >= wanted:
            return False
        done = sum(block.steps for block in blocks if block.epoch == blocks[-1].epoch)
        step = mean_step(blocks)
        return step is None or (self.steps_per_epoch - done) * step.seconds <= seconds_left
