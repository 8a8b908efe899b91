"""Put durations and intervals into words, for statements."""

from __future__ import annotations

import math

from tfopt_core.statistics.intervals import Interval, speedup_interval

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
    return (
        f"{speedup_interval(interval)[0]:.2f}x ({ends_in_words(interval)}, {interval.count} pairs)"
    )


def ends_in_words(interval: Interval) -> str:
    """Return the interval in words: `98% interval 1.24 to 1.26`."""
    _, low, high = speedup_interval(interval)
    return f"{confidence_in_words(interval)} interval {range_in_words(low, high)}"


def range_in_words(low: float, high: float) -> str:
    """Return `1.24 to 1.26`, with as many digits as show on which side of 1 an end lies."""
    digits = 2
    while digits < 5 and any(round(end, digits) == 1 and end != 1 for end in (low, high)):
        digits += 1
    return f"{low:.{digits}f} to {high:.{digits}f}"


def confidence_in_words(interval: Interval) -> str:
    """Return the confidence, with a decimal where rounding would claim certainty: `98%`."""
    percent = 100 * interval.confidence
    return f"{percent:.0f}%" if percent < 99 else f"{percent:.1f}%"
