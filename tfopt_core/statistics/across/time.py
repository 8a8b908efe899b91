"""Judge the times of two stacks, each measured against its own baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tfopt_core.records.results import Comparison, RunResult
from tfopt_core.statistics.disturbance import no_difference_claimed
from tfopt_core.statistics.intervals import FIXED_LEVEL, LOOK_LEVEL
from tfopt_core.statistics.judgement import INDIFFERENCE
from tfopt_core.statistics.welch import WelchInterval

StacksVerdict = Literal["faster", "slower", "no difference", "disturbed", "inconclusive"]

# The figure that a verdict is about, if it is not the wall time of a whole training.
_GOALS = {"time-to-target": " to the target", "steady": " (projected)", "steps": " in its steps"}


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
    interval: WelchInterval, kind: str, runs: Sequence[RunResult]
) -> tuple[StacksVerdict, str]:
    """Return the verdict on the times, and its sentence.

    "No difference" only if the interval lies within the band and no run was disturbed.

    :param kind: the kind of both comparisons.
    :param runs: all runs that the interval is based on.
    """
    low, high = math.exp(interval.low), math.exp(interval.high)
    figures, goal = _in_words(interval), _GOALS.get(kind, "")
    if low > 1:
        band = f" (within the {INDIFFERENCE:.0%} band)" if high < 1 + INDIFFERENCE else ""
        return "faster", f"B's stack is faster than A's{goal}: {figures}{band}"
    if high < 1:
        return "slower", f"B's stack is slower than A's{goal}: {figures}"
    if low >= 1 / (1 + INDIFFERENCE) and high <= 1 + INDIFFERENCE:
        disturbed = no_difference_claimed(runs, figures, goal)
        if disturbed is not None:
            return "disturbed", disturbed
        return "no difference", (
            f"no measurable difference between the stacks{goal} (within {INDIFFERENCE:.0%}): "
            f"{figures}"
        )
    return "inconclusive", (
        f"inconclusive: which stack is faster{goal} cannot be told from these pairs; B's against "
        f"A's is {figures}"
    )


def _in_words(interval: WelchInterval) -> str:
    ends = math.exp(interval.low), math.exp(interval.high)
    digits = 2
    while digits < 5 and any(round(end, digits) == 1 and end != 1 for end in ends):
        digits += 1  # show on which side of 1 an end lies
    low, high = (f"{end:.{digits}f}" for end in ends)
    return (
        f"{math.exp(interval.difference):.2f}x ({interval.confidence:.0%} interval {low} to "
        f"{high}, {interval.counts[0]} and {interval.counts[1]} pairs, each against its own "
        "baseline)"
    )
