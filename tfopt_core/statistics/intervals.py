"""Paired log ratios with their t interval, and intervals and durations in words."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import attrs

# The two-sided level of an interval, and the one-sided level of the bound of the quality.
LEVEL, QUALITY_LEVEL = 0.05, 0.025
# The log ratios of real runs never deviate less than this.
SUSPICIOUS_DEVIATION = 1e-6
MINIMUM_PAIRS = 4


@attrs.frozen
class Interval:
    """A mean with its two-sided t interval; `deviation` is that of a single value, and `confidence`
    is 0.95 for a level of 0.05."""

    mean: float
    low: float
    high: float
    deviation: float
    count: int
    confidence: float


def t_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean and two-sided Student t interval of independent values.

    :param level: the two-sided error rate, 0.05 for a 95% interval.
    :raises ValueError: for fewer than two values.
    """
    count = len(values)
    if count < 2:
        raise ValueError(f"an interval needs two values, got {count}")
    mean = math.fsum(values) / count
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1))
    half = _t_quantile(1 - level / 2, count - 1) * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, deviation, count, 1 - level)


# A call of scipy costs more than the rest of a comparison.
@functools.cache
def _t_quantile(probability: float, freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(probability, freedom))


def log_ratios(baseline: Sequence[float], optimized: Sequence[float]) -> list[float]:
    """Return ln(baseline / optimized) per pair, as in the paired design of bioequivalence.

    :raises ValueError: if the lengths differ or a figure is not positive.
    """
    if any(value <= 0 for value in (*baseline, *optimized)):
        raise ValueError("a ratio needs positive figures")
    return [math.log(b / o) for b, o in zip(baseline, optimized, strict=True)]


def speedup_interval(interval: Interval) -> tuple[float, float, float]:
    """Return speedup, low and high of an interval of log ratios."""
    return math.exp(interval.mean), math.exp(interval.low), math.exp(interval.high)


def pairs_needed(interval: Interval) -> int:
    """Return about how many pairs in all it takes until the interval excludes 0.

    This is (t s / |mean|)^2, by the interval's own t.
    """
    if interval.mean == 0:
        return 10_000
    half_width_of_one = (interval.high - interval.mean) * math.sqrt(interval.count)
    needed = math.ceil((half_width_of_one / abs(interval.mean)) ** 2)
    return max(interval.count + 1, min(needed, 10_000))


# A larger bound tells nobody what to expect.
TELLING_BOUND = 10.0


def seconds_in_words(seconds: float) -> str:
    """Return a duration of which only the size matters: `45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def bound_in_words(bound: float | None) -> str:
    """Return the most that can be gained, rounded up: `1.26x`, `2.7x`; "" if it tells nothing.

    :param bound: a factor, None for no bound.
    """
    if bound is None or bound >= TELLING_BOUND:
        return ""
    digits = 2 if bound < 2 else 1
    # a bound of 1.1 may be a little more as a float
    return f"{math.ceil(round(bound * 10**digits, 6)) / 10**digits:.{digits}f}x"


def interval_in_words(interval: Interval) -> str:
    """Return the speedup with its interval: `1.25x (98% interval 1.24 to 1.26, 4 pairs)`."""
    speedup, low, high = speedup_interval(interval)
    percent = 100 * interval.confidence
    # with a decimal where rounding would claim certainty
    confidence = f"{percent:.0f}%" if percent < 99 else f"{percent:.1f}%"
    ends = f"{confidence} interval {range_in_words(low, high)}"
    return f"{speedup:.2f}x ({ends}, {interval.count} pairs)"


def range_in_words(low: float, high: float) -> str:
    """Return `1.24 to 1.26`, with as many digits as show on which side of 1 an end lies."""
    digits = 2
    while digits < 5 and any(round(end, digits) == 1 and end != 1 for end in (low, high)):
        digits += 1
    return f"{low:.{digits}f} to {high:.{digits}f}"
