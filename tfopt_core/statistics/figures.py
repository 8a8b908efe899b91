"""Pairs of runs that share a seed, the figure by which they are compared, and further ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import attrs

from tfopt_core.records.results import FigureRatio, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import Judgement


def compared_seconds(
    pairs: Sequence[Pair], kind: ComparisonKind
) -> tuple[list[float], list[float]] | str:
    """Return both sides' seconds, per pair; or why there are none to compare.

    A run that never reaches the target counts as the slowest, and two of one side void the result,
    as in MLPerf.
    """
    sides = [p.without for p in pairs], [p.with_ for p in pairs]
    if kind is ComparisonKind.STEPS:
        steps = [[seconds_in_steps(run) for run in side] for side in sides]
        if any(seconds is None for side in steps for seconds in side):
            return "void: of some runs the time of a step is not known"
        before, after = ([s for s in side if s is not None] for side in steps)
        return before, after
    if kind is not ComparisonKind.TIME_TO_TARGET:
        return [total_seconds(run) for run in sides[0]], [total_seconds(run) for run in sides[1]]
    figures = []
    for side in sides:
        missed = [run for run in side if run.fit.seconds_to_target is None]
        if len(missed) > 1:
            return (
                f'void: {len(missed)} of {len(side)} runs of "{side[0].variant}" never reached '
                "the target, so there is no time to it; lower the target or train longer"
            )
        figures.append(_with_slowest(side))
    return figures[0], figures[1]


def total_seconds(run: RunResult) -> float:
    """Return the wall time of a whole training: measured, or from the pieces of a run that was cut
    short or trained in turns."""
    fits = run.timed_fits
    if all(fit.projected_seconds is None for fit in fits):
        return wall_seconds(run)
    totals = [one.wall_seconds if (s := one.projected_seconds) is None else s for one in fits]
    # a run is cut short once it can be projected
    assert all(seconds is not None for seconds in totals)
    return math.fsum(seconds for seconds in totals if seconds is not None)


def seconds_in_steps(run: RunResult) -> float | None:
    """Return the seconds of all steps of a whole training, at their mean; None if unknown.

    Start-up and the starts of epochs are left out.
    """
    fits = run.timed_fits
    known = [
        # where their number is unknown, it is the same on both sides
        fit.step_seconds * (fit.planned_steps or 1)
        for fit in fits
        if fit.step_seconds is not None
    ]
    return math.fsum(known) if known and len(known) == len(fits) else None


def not_projected(run: RunResult) -> str | None:
    """Return why the total of a run that was cut short is unknown; None if it is known."""
    cut = [fit for fit in run.timed_fits if not fit.complete and fit.projected_seconds is None]
    return (cut[0].why_not_projected or "the total is not known") if cut else None


def _with_slowest(side: Sequence[RunResult]) -> list[float]:
    reached = [run.fit.seconds_to_target for run in side]
    # a run that missed the target took at least its whole wall time
    slowest = max(
        wall_seconds(run) if s is None else s for run, s in zip(side, reached, strict=True)
    )
    return [slowest if seconds is None else seconds for seconds in reached]


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


@attrs.frozen
class Pair:
    """Two runs of one round; a gain is `without` against `with_`."""

    without: RunResult
    with_: RunResult


def runs_of(pairs: Sequence[Pair]) -> list[RunResult]:
    """Return both runs of each pair."""
    return [run for pair in pairs for run in (pair.without, pair.with_)]


def pairs_of(
    runs: Sequence[RunResult], without: str = BASELINE, with_: str = FULL
) -> tuple[Pair, ...]:
    """Return the pairs of the rounds in which both variants ended well, in order."""
    rounds: dict[int, dict[str, RunResult]] = {}
    for run in runs:
        if run.ok:
            rounds.setdefault(run.round, {})[run.variant] = run
    return tuple(
        Pair(rounds[round_][without], rounds[round_][with_])
        for round_ in sorted(rounds)
        if without in rounds[round_] and with_ in rounds[round_]
    )


def wall_seconds(run: RunResult) -> float:
    """Return the wall time of a run that ended well."""
    assert run.wall_seconds is not None
    return run.wall_seconds


def applied_plugins(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return the plugins whose effect every one of these runs confirmed."""
    if not runs:
        return ()
    return tuple(
        name
        for name in runs[0].effects
        if all(name in run.effects and run.effects[name].applied for run in runs)
    )
