"""Compute the step after which faster steps repay a more expensive start."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.statistics.intervals import log_ratios, median, t_interval
from tfopt_core.statistics.pairs import Pair, wall_seconds


def break_even_step(pairs: Sequence[Pair], level: float) -> int | None:
    """Return (C_opt - C_base) / (s_base - s_opt), from the medians over the pairs.

    None unless the start surely costs more and a step is surely faster: the intervals of both
    exclude no difference. None too if a run has no steady step time.

    :param level: the two-sided error rate of the intervals.
    """
    if any(
        not run.fit.steady or not run.fit.step_seconds for side in _sides(pairs) for run in side
    ):
        return None
    starts, steps = (
        [[read(run) for run in side] for side in _sides(pairs)] for read in (_one_time, _step)
    )
    dearer = t_interval([after - before for before, after in zip(*starts, strict=True)], level)
    faster = t_interval(log_ratios(*steps), level)
    if dearer.low <= 0 or faster.low <= 0:
        return None
    paid, gained = (abs(median(side[1]) - median(side[0])) for side in (starts, steps))
    return round(paid / gained) if gained else None


def not_repaid(step: int | None, pairs: Sequence[Pair]) -> str:
    """Return the note that the training is too short to repay its start; empty if it is not."""
    walls = [median([wall_seconds(run) for run in side]) for side in _sides(pairs)]
    if step is None or walls[1] < walls[0]:
        return ""
    return f"; start-up cost not repaid before step {step:,}"


def _sides(pairs: Sequence[Pair]) -> tuple[list[RunResult], list[RunResult]]:
    return [p.without for p in pairs], [p.with_ for p in pairs]


def _one_time(run: RunResult) -> float:
    return run.fit.one_time_seconds


def _step(run: RunResult) -> float:
    return run.fit.step_seconds or 0.0
