"""Detect timings more alike than those of real runs: copied, not measured."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, SUSPICIOUS_DEVIATION, Interval
from tfopt_core.statistics.pairs import Pair


def identical_timings(
    pairs: Sequence[Pair], sides: tuple[Sequence[float], Sequence[float]], interval: Interval
) -> bool:
    """Return whether the timings agree as those of real runs never do.

    All pairs have the same ratio; or all runs of a side the same seconds; or two runs agree to
    the nanosecond in their wall time and in each block.

    :param sides: the compared seconds of both sides.
    :param interval: the interval of their log ratios.
    """
    if interval.deviation < SUSPICIOUS_DEVIATION:
        return True
    if len(pairs) >= MINIMUM_PAIRS and any(len(set(side)) == 1 for side in sides):
        return True
    runs = [run for pair in pairs for run in (pair.without, pair.with_)]
    timings = [timing for run in runs if (timing := _timing(run)) is not None]
    return len(set(timings)) < len(timings)


def _timing(run: RunResult) -> tuple[float | None, ...] | None:
    """Return everything that was timed in a run, None without blocks. The wall time alone may agree
    by chance if the clock is coarse."""
    blocks = [block.seconds for fit in run.fits for block in fit.blocks]
    return (run.wall_seconds, *blocks) if blocks else None
