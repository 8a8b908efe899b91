"""The rules by which a comparison is judged, fixed before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from tfopt_core.hooks.card import MATHS, Math
from tfopt_core.recipe import TargetSpec
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.intervals import FIXED_LEVEL, LOOK_LEVEL, QUALITY_LOOK_LEVEL

# Smaller differences are of no interest (docs/guide/measuring.md, "Verdicts").
INDIFFERENCE = 0.02
DEFAULT_TOLERANCE = 0.005
# The tolerance for a metric that is no share, relative to the baseline's mean.
RELATIVE_TOLERANCE = 0.01


@attrs.frozen(kw_only=True)
class Judgement:
    """The rules of one measurement.

    :param tolerance: by how much the metric may be worse; None means 0.005 for a metric that is
        better high (a share), and 1% of the baseline's mean for one that is better low.
    :param examples: the size of the validation set, None if unknown.
    :param math: what the stack as a whole does to the mathematics of training.
    :param sequential: whether the number of pairs is decided at looks (98% intervals) or was
        fixed before (95%).
    :param projected: whether some run was cut short, so that totals are projected.
    :param per_step: whether the total of some run cannot be projected, so that steps are compared.
    :param certificate: the certificate of a replay, None if none was made.
    """

    metric: str
    direction: Literal["max", "min"]
    tolerance: float | None
    examples: int | None
    math: Math
    target: TargetSpec | None
    sequential: bool
    projected: bool = False
    per_step: bool = False
    certificate: Certificate | None = None

    @property
    def level(self) -> float:
        """The two-sided nominal level of each interval."""
        return LOOK_LEVEL if self.sequential else FIXED_LEVEL

    @property
    def quality_level(self) -> float:
        """The one-sided nominal level of the quality bound."""
        return QUALITY_LOOK_LEVEL if self.sequential else FIXED_LEVEL

    @property
    def kind(self) -> Literal["end-to-end", "steady", "steps", "time-to-target"]:
        """The kind of comparison: time to target for a stack that changes the algorithm."""
        if self.math == "changes":
            return "time-to-target"
        if self.per_step:
            return "steps"
        return "steady" if self.projected else "end-to-end"

    def tolerance_for(self, baseline: float) -> float:
        """Return the tolerance, given the baseline's mean of the metric."""
        if self.tolerance is not None:
            return self.tolerance
        if self.direction == "max":
            return DEFAULT_TOLERANCE
        return RELATIVE_TOLERANCE * abs(baseline)


def stack_math(maths: Sequence[Math]) -> Math:
    """Return what a stack does to the mathematics, that of its furthest-reaching plugin.

    With a plugin that rounds, one that declares nothing leaves the stack at "rounding": a replay
    could not certify it, and the statistics of quality decide in both cases.
    """
    furthest: Math = max(maths, key=MATHS.index, default="exact")
    return "rounding" if furthest == "unknown" and "rounding" in maths else furthest
