"""The rules by which runs are judged, from the recipe, the dry build and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from tfopt_core.hooks.card import EQUIVALENCES, Equivalence
from tfopt_core.recipe import Objective, TargetSpec
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.certificate import Certificate

# Smaller differences are of no interest (docs/guide/measuring.md, "Verdicts").
INDIFFERENCE = 0.05
DEFAULT_TOLERANCE = 0.005
# The tolerance for a metric that is no share, relative to the baseline's mean.
RELATIVE_TOLERANCE = 0.01


@attrs.frozen(kw_only=True)
class Judgement:
    """The rules of one measurement.

    :param metric: the metric of quality, "" for a script's own loop, which reports none.
    :param tolerance: by how much the metric may be worse; None means 0.005 for a metric that is
        better high (a share), and 1% of the baseline's mean for one that is better low.
    :param examples: the size of the validation set, None if unknown.
    :param equivalence: what the stack as a whole does to the mathematics of training.
    :param projected: whether some run was cut short, so that totals are projected.
    :param per_step: whether the total of some run cannot be projected, so that steps are compared.
    :param certificate: the certificate of a replay, None if none was made.
    :param objective: which contrast is the headline.
    :param batch_sizes: the global batch of the baseline and of the full stack, None if unknown.
    """

    metric: str
    direction: Literal["max", "min"]
    tolerance: float | None
    examples: int | None
    equivalence: Equivalence
    target: TargetSpec | None
    projected: bool = False
    per_step: bool = False
    certificate: Certificate | None = None
    objective: Objective = "time"
    batch_sizes: tuple[int | None, int | None] = (None, None)

    @property
    def kind(self) -> ComparisonKind:
        """The kind of comparison: time to target for a stack that changes the algorithm, or where
        that is the objective."""
        if self.equivalence == "changes" or self.objective == "time-to-target":
            return ComparisonKind.TIME_TO_TARGET
        if self.per_step:
            return ComparisonKind.STEPS
        return ComparisonKind.STEADY if self.projected else ComparisonKind.END_TO_END

    def tolerance_for(self, baseline: float) -> float:
        """Return the tolerance, given the baseline's mean of the metric."""
        if self.tolerance is not None:
            return self.tolerance
        if self.direction == "max":
            return DEFAULT_TOLERANCE
        return RELATIVE_TOLERANCE * abs(baseline)


def verdict_on_interval(low: float, high: float) -> Verdict:
    """Return what an interval of a speedup shows: FASTER, SLOWER, NO_DIFFERENCE or INCONCLUSIVE."""
    if low <= 1 <= high:
        return Verdict.NO_DIFFERENCE if indifferent(low, high) else Verdict.INCONCLUSIVE
    return Verdict.FASTER if low > 1 else Verdict.SLOWER


def indifferent(low: float, high: float) -> bool:
    """Return whether an interval of ratios lies within the 5% that nobody minds."""
    return low >= 1 / (1 + INDIFFERENCE) and high <= 1 + INDIFFERENCE


def no_difference_in_words(figures: str, of_what: str) -> str:
    """Return the sentence on an interval that is indifferent.

    :param of_what: of what it is true, such as " to the target".
    """
    return f"no measurable difference{of_what} (within {INDIFFERENCE:.0%}): {figures}"


def band_in_words(high: float) -> str:
    """Return ` (within the 5% band)` for a gain that ends inside it, "" for a larger one."""
    return f" (within the {INDIFFERENCE:.0%} band)" if high < 1 + INDIFFERENCE else ""


def stack_equivalence(maths: Sequence[Equivalence]) -> Equivalence:
    """Return what a stack does to the mathematics, that of its furthest-reaching plugin.

    With a plugin that rounds, one that declares nothing leaves the stack at "rounding": a replay
    could not certify it, and the statistics of quality decide in both cases.
    """
    furthest: Equivalence = max(maths, key=EQUIVALENCES.index, default="exact")
    return "rounding" if furthest == "unknown" and "rounding" in maths else furthest
