"""Baseline / stack ratios with intervals, for each row of the summary; none decides the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfopt_core.records.results import FigureRatio, RunResult
from tfopt_core.statistics.figures import not_projected, total_seconds
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import pairs_of

Read = Callable[[RunResult], float | None]


def ratios(runs: Sequence[RunResult], judgement: Judgement) -> tuple[FigureRatio, ...]:
    """Return the ratio, baseline over full stack, of each figure that all pairs have.

    They decide nothing, so the level is not corrected for their number.
    """
    pairs = pairs_of(runs)
    if len(pairs) < MINIMUM_PAIRS:
        return ()

    def known_ratios() -> Iterator[FigureRatio]:
        for figure, read in FIGURES.items():
            values = [(read(p.without), read(p.with_)) for p in pairs]
            known = [(b, o) for b, o in values if b and o and b > 0 and o > 0]
            if len(known) == len(pairs):
                interval = t_interval(log_ratios(*zip(*known, strict=True)))
                ratio, low, high = speedup_interval(interval)
                yield FigureRatio(
                    figure=figure, ratio=ratio, low=low, high=high, pairs=interval.count
                )

    return tuple(known_ratios())


def _total(run: RunResult) -> float | None:
    return None if not_projected(run) is not None else total_seconds(run)


FIGURES: dict[str, Read] = {
    "wall_seconds": _total,
    "step_seconds": lambda run: run.fit.step_seconds,
    "examples_per_second": lambda run: run.fit.examples_per_second,
    "one_time_seconds": lambda run: run.fit.one_time_seconds,
    "epochs_to_target": lambda run: run.fit.epochs_to_target,
    "seconds_to_target": lambda run: run.fit.seconds_to_target,
    "peak_rss_bytes": lambda run: run.peak_rss_bytes,
    "peak_device_bytes": lambda run: run.peak_device_bytes,
}
