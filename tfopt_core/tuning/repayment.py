"""After how many trainings a search is repaid. Pure functions."""

from __future__ import annotations

import math

from tfopt_core.records.results import Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.figures import not_projected, total_seconds
from tfopt_core.statistics.intervals import median


def saved_seconds(proof: Results) -> float | None:
    """Return the seconds that the stack saves of each training, by the fresh pairs.

    None where no gain is shown, or where its runs tell no whole time.
    """
    comparison = proof.comparison
    if comparison.verdict not in (Verdict.FASTER, Verdict.QUALITY_OPEN):
        return None
    to_target = comparison.kind is ComparisonKind.TIME_TO_TARGET
    before, after = (
        _seconds(proof.of_variant(variant), to_target=to_target) for variant in (BASELINE, FULL)
    )
    if before is None or after is None or before <= after:
        return None
    return before - after


def trainings_to_repay(cost_seconds: float, saved: float | None) -> int | None:
    """Return after how many trainings the cost is repaid; None if none is saved."""
    return None if not saved else max(1, math.ceil(cost_seconds / saved))


def _seconds(runs: tuple[RunResult, ...], *, to_target: bool) -> float | None:
    if to_target:
        reached = [run.fit.seconds_to_target for run in runs]
        known = [seconds for seconds in reached if seconds is not None]
        return median(known) if known and len(known) == len(reached) else None
    if not runs or any(not_projected(run) is not None for run in runs):
        return None
    return median([total_seconds(run) for run in runs])
