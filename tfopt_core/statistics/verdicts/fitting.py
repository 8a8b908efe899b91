"""The verdict where one side of a measurement does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import Verdict
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import applied_plugins
from tfopt_core.statistics.verdicts.amounts import not_finite


def fits_into_memory(runs: Sequence[RunResult], judgement: Judgement) -> tuple[Verdict, str] | None:
    """Return the verdict and its statement, if each run of a side ran out of memory.

    None if neither side did, or some of its runs ended otherwise. No speedup follows: there is no
    pair. The side that trained must have trained in every run, to finite metrics, and the stack
    with an effect.
    """
    before, after = (
        [run for run in runs if run.variant == variant and run.status in ("ok", "failed")]
        for variant in (BASELINE, FULL)
    )
    too_large = [bool(side) and all(run.out_of_memory for run in side) for side in (before, after)]
    if all(too_large):
        return Verdict.NONE, (
            f"no verdict: baseline and stack both ran out of memory{_batch(judgement, 0)}"
        )
    if not any(too_large):
        return None
    other = before if too_large[1] else after
    if not other or any(not run.ok for run in other) or not_finite(other) is not None:
        return None
    runs_each = f"{len(before)} and {len(after)} runs"
    if len(before) == len(after):
        runs_each = f"{len(before)} run{'s' if len(before) > 1 else ''} each"
    if too_large[1]:
        return Verdict.DOES_NOT_FIT, (
            f"does not fit: the stack ran out of memory{_batch(judgement, 1)}, the baseline "
            f"trained ({runs_each})"
        )
    if not applied_plugins(after):
        return None
    return Verdict.FITS, (
        f"fits: the baseline ran out of memory{_batch(judgement, 0)}, the stack trained "
        f"({runs_each})"
    )


def _batch(judgement: Judgement, side: int) -> str:
    size = judgement.batch_sizes[side]
    return "" if size is None else f" at batch {size:,}"
