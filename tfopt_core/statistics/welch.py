"""Welch's interval for the difference of two means of independent samples."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.statistics.intervals import t_interval


@attrs.frozen
class WelchInterval:
    """The mean of the second sample less that of the first, with its two-sided interval.

    `counts` are the sizes of the two samples.
    """

    difference: float
    low: float
    high: float
    degrees_of_freedom: float
    counts: tuple[int, int]
    level: float

    @property
    def confidence(self) -> float:
        """The nominal confidence, 0.95 for a level of 0.05."""
        return 1 - self.level


def welch_interval(first: Sequence[float], second: Sequence[float], level: float) -> WelchInterval:
    """Return mean(second) - mean(first) with its two-sided t interval.

    Welch, The generalization of "Student's" problem when several different population variances
    are involved, Biometrika 34 (1947); degrees of freedom after Satterthwaite, Biometrics
    Bulletin 2 (1946).

    :param level: the two-sided error rate, 0.05 for a 95% interval.
    :raises ValueError: for a sample of fewer than two values, or if neither sample varies.
    """
    from scipy import stats

    a, b = t_interval(first, level), t_interval(second, level)
    variances = a.deviation**2 / a.count, b.deviation**2 / b.count
    total = sum(variances)
    if total == 0:
        raise ValueError("neither sample varies, so there is nothing to judge the difference by")
    shares = [variance / total for variance in variances]
    degrees = 1 / (shares[0] ** 2 / (a.count - 1) + shares[1] ** 2 / (b.count - 1))
    half = float(stats.t.ppf(1 - level / 2, degrees)) * total**0.5
    difference = b.mean - a.mean
    return WelchInterval(
        difference, difference - half, difference + half, degrees, (a.count, b.count), level
    )
