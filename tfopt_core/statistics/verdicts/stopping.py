"""Decide when to stop a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.intervals import log_ratios
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import pairs_of

# A variant that failed this often and never ended well is not tried again.
MAX_FAILURES = 2


def failed_for_good(runs: Sequence[RunResult]) -> set[str]:
    """Return the variants that failed twice and never ended well."""
    return {
        name
        for name in {run.variant for run in runs}
        if all(run.status == "failed" for run in runs if run.variant == name)
        and sum(run.variant == name for run in runs) >= MAX_FAILURES
    }


def no_pair_possible(runs: Sequence[RunResult]) -> bool:
    """Return whether there will never be a pair, since a side has failed for good."""
    return bool({BASELINE, FULL} & failed_for_good(runs))


def speedup_so_far(runs: Sequence[RunResult], judgement: Judgement) -> float | None:
    """Return the mean speedup over complete pairs, None before the first."""
    pairs = pairs_of(runs)
    figures = compared_seconds(pairs, judgement.kind) if pairs else ""
    if isinstance(figures, str):
        return None
    ratios = log_ratios(*figures)
    return math.exp(math.fsum(ratios) / len(ratios))
