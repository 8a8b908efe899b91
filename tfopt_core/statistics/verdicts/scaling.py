"""Compute the gain from training on more replicas than the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import Attribution, Comparison, RunResult, Scaling
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.statistics.intervals import median


def scaling(
    runs: Sequence[RunResult], comparison: Comparison, rows: Sequence[Attribution]
) -> Scaling | None:
    """Return the scaling of a stack with more replicas than the baseline, otherwise None.

    The speedup is that of the plugin that adds the replicas if it was left out in turn, otherwise
    that of the whole stack.
    """
    stack = [run for run in runs if run.variant == FULL and run.ok]
    replicas, before = _replicas(stack), _replicas(_of(runs, BASELINE))
    if replicas is None or before is None or replicas <= before:
        return None
    plugin, speedup = None, comparison.speedup
    low, high = comparison.low, comparison.high
    for row in rows:
        if row.left_out is not None and _replicas(_of(runs, f"without {row.plugin}")) == before:
            plugin, speedup = row.plugin, row.left_out
            low, high = row.low, row.high
            break
    step = _median([run.fit.step_seconds for run in stack])
    communication = _median([run.fit.communication_step_seconds for run in stack])
    return Scaling(
        replicas=replicas,
        baseline_replicas=before,
        workers=max(run.fit.workers for run in stack),
        plugin=plugin,
        speedup=speedup,
        efficiency=None if speedup is None else speedup * before / replicas,
        step_seconds=step,
        communication_step_seconds=communication,
        # timed alone, it may take longer than in a step, which overlaps it with computing
        communication_share=(
            min(1.0, communication / step) if step and communication is not None else None
        ),
        low=low,
        high=high,
    )


def _of(runs: Sequence[RunResult], variant: str) -> list[RunResult]:
    return [run for run in runs if run.variant == variant and run.ok]


def _replicas(runs: Sequence[RunResult]) -> int | None:
    """Return on how many devices these runs trained; None without a run, or if they differ."""
    # a strategy with parameter servers does not count its workers as replicas
    counts = {max(run.fit.replicas, run.fit.workers) for run in runs}
    return counts.pop() if len(counts) == 1 else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None
