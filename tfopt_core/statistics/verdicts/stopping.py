"""Decide when to stop a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import MemoryVerdict, Verdict
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.intervals import LOOKS, log_ratios
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.statistics.verdicts.verdict import compare

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


def is_complete(runs: Sequence[RunResult], round_: int) -> bool:
    """Return whether both sides of a round were run, successfully or not."""
    variants = {run.variant for run in runs if run.round == round_}
    return {BASELINE, FULL} <= variants


def rounds_in_a_row(runs: Sequence[RunResult]) -> int:
    """Return how many rounds from the first on are complete."""
    round_ = 0
    while is_complete(runs, round_):
        round_ += 1
    return round_


def settled(runs: Sequence[RunResult], judgement: Judgement, rounds: int) -> bool:
    """Return whether, at a look after so many rounds, more pairs could not change the verdict."""
    if rounds == LOOKS[-1]:
        return True
    looked_at = [run for run in runs if run.round < rounds]
    comparison = compare(looked_at, judgement)
    memory = comparison.headline_memory
    verdict = comparison.verdict if memory is None else memory.verdict
    # runs that are cut short never establish the quality, however many there are, and those of a
    # script's own loop report no metric
    is_open = verdict in (Verdict.QUALITY_OPEN, MemoryVerdict.QUALITY_OPEN)
    never = judgement.kind.of_cut_runs or not judgement.metric
    return verdict.settles or (is_open and never)


def speedup_so_far(runs: Sequence[RunResult], judgement: Judgement) -> float | None:
    """Return the mean speedup over complete pairs, None before the first."""
    pairs = pairs_of(runs)
    figures = compared_seconds(pairs, judgement.kind) if pairs else ""
    if isinstance(figures, str):
        return None
    ratios = log_ratios(*figures)
    return math.exp(math.fsum(ratios) / len(ratios))
