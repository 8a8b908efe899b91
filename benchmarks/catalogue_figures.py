"""The figures of a row of the catalogue, by tfopt's own rules for pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.statistics.figures import compared_seconds, seconds_in_steps, verdict_on_interval
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, log_ratios, speedup_interval, t_interval
from tfopt_core.statistics.results import ComparisonKind, Verdict
from tfopt_core.statistics.runs import Pair, RunResult

# The rounds of the catalogue end at looks, each with 98% intervals (Pocock's boundary for three
# looks; see Jennison & Turnbull, Group Sequential Methods, 1999).
LOOKS, LOOK_LEVEL = (4, 8, 12), 0.0203

# The figures of the baseline's runs, and those of the plugin's.
Sides = tuple[list[float], list[float]]


def step_seconds(pairs: Sequence[Pair]) -> Sides | None:
    """Return the seconds that the steps of an epoch take once they are warm, None if unknown.

    An epoch and not a step: a plugin may change how many examples a step has.
    """
    sides = [[_steps_of_an_epoch(run) for run in side] for side in _sides(pairs)]
    known = [[seconds for seconds in side if seconds is not None] for side in sides]
    if any(len(side) < len(pairs) for side in known):
        return None
    return known[0], known[1]


def training_seconds(pairs: Sequence[Pair], math: Equivalence | None) -> Sides | str:
    """Return the seconds of the trainings, or those to the target if the plugin changes the
    algorithm; or why the latter are unknown."""
    changes = math == "changes"
    kind = ComparisonKind.TIME_TO_TARGET if changes else ComparisonKind.END_TO_END
    found = compared_seconds(pairs, kind)
    if not isinstance(found, str):
        return found
    before, after = (
        sum(run.fit.seconds_to_target is not None for run in side) for side in _sides(pairs)
    )
    return f"target reached in {after} of {len(pairs)} runs, without it in {before}"


def peak_bytes(pairs: Sequence[Pair]) -> Sides:
    """Return the peak memory of the process that trains."""
    before, after = ([float(run.peak_rss_bytes or 0) for run in side] for side in _sides(pairs))
    return before, after


def start_seconds(pairs: Sequence[Pair]) -> Sides:
    """Return what a training costs once: building, tracing, filling a cache, joining a cluster."""
    before, after = ([run.fit.one_time_seconds for run in side] for side in _sides(pairs))
    return before, after


def judged_seconds(pairs: Sequence[Pair], math: Equivalence | None) -> Sides | str:
    """Return the seconds by which a row is judged: of the steps, or to the target where the plugin
    changes the algorithm; or why there are none."""
    steps = None if math == "changes" else step_seconds(pairs)
    return training_seconds(pairs, math) if steps is None else steps


def verdict_of(sides: Sides) -> Verdict:
    """Return what the interval of the ratio shows, of time or of memory."""
    interval = t_interval(log_ratios(*sides), LOOK_LEVEL)
    _, low, high = speedup_interval(interval)
    return verdict_on_interval(low, high)


def is_open(pairs: Sequence[Pair], math: Equivalence | None) -> bool:
    """Return whether more pairs could show what these do not."""
    if len(pairs) < MINIMUM_PAIRS:
        return True
    sides = judged_seconds(pairs, math)
    return not isinstance(sides, str) and verdict_of(sides) is Verdict.INCONCLUSIVE


def _sides(pairs: Sequence[Pair]) -> tuple[list[RunResult], list[RunResult]]:
    return [pair.without for pair in pairs], [pair.with_ for pair in pairs]


def _steps_of_an_epoch(run: RunResult) -> float | None:
    seconds = seconds_in_steps(run)
    return None if seconds is None else seconds / run.fit.epochs
