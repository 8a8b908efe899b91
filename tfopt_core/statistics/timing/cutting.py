"""When a run may be cut short because its step time is known (MEASUREMENT.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.hooks import RunContext
from tfopt_core.records.fit import Block
from tfopt_core.statistics.timing.projection import first_of_later_epochs, mean_step
from tfopt_core.statistics.timing.steady import steady_state

# Twenty blocks may be 0.4 s, in which a machine's speed drifts: a steady step time is known only
# once it was seen for longer.
LEAST_SECONDS = 2.0
# On a noisy machine under half of all runs ever get steady (Barrett et al. 2017).
UNSTEADY_SECONDS = 8.0
# The standard error of the mean step below which a run may end, relative to it.
ENOUGH = 0.02
# No run goes on for longer in search of that, or of an epoch's end: with the usual budget of ten
# minutes eight such runs take about a quarter of it, ...
LONGEST_SECONDS = 20.0
# ... and with another one as well.
SHARE_OF_BUDGET = 1 / 30


def longest_seconds(budget: float) -> float:
    """Return how many seconds of timed steps a run may take before it is cut in any case.

    :param budget: of the whole measurement, in seconds.
    """
    return max(UNSTEADY_SECONDS, budget * SHARE_OF_BUDGET)


def cut_rule(longest_seconds: float | None, run: RunContext) -> CutRule | None:
    """Return the rule for a run's training; None for one that is to be trained to its end, or whose
    steps are not known, so that nothing could be projected from a part of it."""
    if longest_seconds is None or run.steps_per_epoch is None:
        return None
    return CutRule(
        epochs=run.epochs, steps_per_epoch=run.steps_per_epoch, longest_seconds=longest_seconds
    )


@attrs.frozen(kw_only=True)
class CutRule:
    """Says whether a training may be cut short, from its blocks so far.

    :param epochs: of the whole training.
    :param steps_per_epoch: of the whole training.
    :param longest_seconds: of warm blocks; after these a training is cut in any case.
    """

    epochs: int
    steps_per_epoch: int
    longest_seconds: float = LONGEST_SECONDS

    def __call__(self, blocks: Sequence[Block]) -> bool:
        """Return whether the mean step is known and the start of an epoch was seen, as far as
        both can be had before `longest_seconds`."""
        warm = math.fsum(block.seconds for block in blocks if not block.cold)
        if warm < LEAST_SECONDS:
            return False
        if warm >= self.longest_seconds:
            return True
        step = mean_step(blocks)
        if step is None or step.error >= ENOUGH:
            return False
        if self._waits_for_epoch(blocks, self.longest_seconds - warm, step.seconds):
            return False
        return warm >= UNSTEADY_SECONDS or steady_state(blocks).steady

    def _waits_for_epoch(
        self, blocks: Sequence[Block], seconds_left: float, step_seconds: float
    ) -> bool:
        """Return whether no start of an epoch was seen yet, but one will be in the seconds left."""
        if self.epochs < 2 or first_of_later_epochs(blocks):
            return False
        done = sum(block.steps for block in blocks if block.epoch == blocks[-1].epoch)
        return (self.steps_per_epoch - done) * step_seconds <= seconds_left
