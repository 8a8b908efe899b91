"""Judge the times of two stacks, each measured against its own baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.results import Comparison, RunResult
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.disturbance import no_difference
from tfopt_core.statistics.intervals import FIXED_LEVEL, LOOK_LEVEL
from tfopt_core.statistics.judgement import band_in_words, verdict_on_interval
from tfopt_core.statistics.welch import WelchInterval
from tfopt_core.statistics.wording import range_in_words


def level_of(a: Comparison, b: Comparison) -> float:
    """Return the two-sided nominal level: 0.05, or that of a look if a measurement stopped at one.

    Stopping as soon as the difference looks clear biases the mean outwards: a 95% interval of the
    contrast then misses in up to 9% of cases, a 98% interval in at most 5% (simulated in
    tests/unit/statistics/test_across.py).
    """
    halfway = 1 - (FIXED_LEVEL + LOOK_LEVEL) / 2
    looked = any((comparison.confidence or 0) > halfway for comparison in (a, b))
    return LOOK_LEVEL if looked else FIXED_LEVEL


def judge(
    interval: WelchInterval, kind: ComparisonKind, runs: Sequence[RunResult]
) -> tuple[Verdict, str]:
    """Return the verdict on the times, and its sentence.

    "No difference" only if the interval lies within the band and no run was disturbed.

    :param kind: the kind of both comparisons.
    :param runs: all runs that the interval is based on.
    """
    low, high = math.exp(interval.low), math.exp(interval.high)
    figures, of_what = _in_words(interval), kind.qualifier
    match verdict_on_interval(low, high):
        case Verdict.FASTER as shown:
            return shown, f"B's stack is faster than A's{of_what}: {figures}{band_in_words(high)}"
        case Verdict.SLOWER as shown:
            return shown, f"B's stack is slower than A's{of_what}: {figures}"
        case Verdict.NO_DIFFERENCE:
            return no_difference(runs, figures, f" between the stacks{of_what}")
        case _:
            return Verdict.INCONCLUSIVE, (
                f"inconclusive: which stack is faster{of_what} cannot be told from these pairs; "
                f"B's against A's is {figures}"
            )


def _in_words(interval: WelchInterval) -> str:
    ends = range_in_words(math.exp(interval.low), math.exp(interval.high))
    return (
        f"{math.exp(interval.difference):.2f}x ({interval.confidence:.0%} interval {ends}, "
        f"{interval.counts[0]} and {interval.counts[1]} pairs, each against its own baseline)"
    )
