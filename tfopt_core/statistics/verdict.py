"""The verdict of a measurement (docs/guide/measuring.md, "Verdicts")."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.records.results import Comparison, RunResult
from tfopt_core.records.verdict import ComparisonKind, QualityVerdict, Verdict
from tfopt_core.statistics.claims import (
    as_good,
    examples,
    fell,
    fits_into_memory,
    identical_timings,
    inconclusive,
    no_claim,
    unlike_training,
)
from tfopt_core.statistics.figures import (
    Pair,
    applied_plugins,
    compared_seconds,
    pairs_of,
    total_seconds,
)
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    Interval,
    interval_in_words,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import (
    Judgement,
    band_in_words,
    no_difference_in_words,
    verdict_on_interval,
)
from tfopt_core.statistics.memory import compare_memory
from tfopt_core.statistics.quality import compare_quality


def compare(
    runs: Sequence[RunResult],
    judgement: Judgement,
    pair_seconds: float | None = None,
    why_too_few: str = "",
) -> Comparison:
    """Judge the baseline against the full stack and return the comparison.

    :param runs: all runs of the measurement, failed ones too.
    :param pair_seconds: the seconds of another pair, for "needs about N more pairs (about T)".
    :param why_too_few: the statement if the pairs are too few, "" for how many it takes.
    """
    pairs = pairs_of(runs)
    draft = Comparison(
        kind=judgement.kind,
        verdict=Verdict.NONE,
        speedup=None,
        low=None,
        high=None,
        confidence=None,
        pairs=len(pairs),
        run_ids=tuple(run_id for pair in pairs for run_id in pair.run_ids),
        statement="",
        quality=compare_quality(pairs, judgement),
        objective=judgement.objective,
    )
    fitting = fits_into_memory(runs, judgement)
    if fitting is not None:
        return attrs.evolve(draft, verdict=fitting[0], statement=fitting[1])
    if len(pairs) < MINIMUM_PAIRS:
        why = why_too_few or f"{len(pairs)} complete pairs, and it takes {MINIMUM_PAIRS}"
        comparison = attrs.evolve(draft, statement=f"no verdict: {why}")
    else:
        comparison = _judged(draft, pairs, runs, judgement, pair_seconds)
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        note = f"{len(failed)} of {len(runs)} runs failed"
        comparison = attrs.evolve(comparison, statement=f"{comparison.statement}; {note}")
    return comparison


def _judged(
    draft: Comparison, pairs: Sequence[Pair], runs: Sequence[RunResult], judgement: Judgement,
    pair_seconds: float | None,
) -> Comparison:  # fmt: skip
    if not applied_plugins([pair.with_ for pair in pairs]):
        return attrs.evolve(
            draft,
            verdict=Verdict.NOT_APPLIED,
            statement="not applied: no plugin of the stack took effect in every run, so there is "
            "no gain to report",
        )
    figures = compared_seconds(pairs, judgement.kind)
    if isinstance(figures, str):
        return attrs.evolve(draft, verdict=Verdict.VOID, statement=figures)
    interval = t_interval(log_ratios(*figures))
    if identical_timings(pairs, figures, interval):
        return attrs.evolve(
            draft,
            verdict=Verdict.SUSPICIOUS,
            statement="no verdict: suspiciously identical timings, which real runs never have",
        )
    speedup, low, high = speedup_interval(interval)
    measured = attrs.evolve(
        draft, speedup=speedup, low=low, high=high, confidence=interval.confidence
    )
    verdict, statement = _verdict(measured, interval, pairs, runs, judgement, pair_seconds)
    memory = compare_memory(measured, pairs, runs, judgement)
    return attrs.evolve(measured, verdict=verdict, statement=statement, memory=memory)


def _verdict(
    measured: Comparison, interval: Interval, pairs: Sequence[Pair], runs: Sequence[RunResult],
    judgement: Judgement, pair_seconds: float | None,
) -> tuple[Verdict, str]:  # fmt: skip
    """Return the verdict on a speedup with its interval, and its statement."""
    assert measured.low is not None
    assert measured.high is not None
    figures, of_what = interval_in_words(interval), measured.kind.qualifier
    unlike = unlike_training(pairs, judgement)
    if unlike is not None:
        by_example = _by_example(pairs, judgement)
        return Verdict.UNLIKE, f"{unlike}; time{of_what} {figures}{by_example}"
    match verdict_on_interval(measured.low, measured.high):
        case Verdict.FASTER:
            verdict, statement = _faster(measured, figures + band_in_words(measured.high))
            return no_claim(statement, pairs, runs) or (verdict, statement)
        case Verdict.SLOWER if measured.kind is ComparisonKind.STEPS:
            return Verdict.STEPS_SLOWER, f"steps are slower: {figures}"
        case Verdict.SLOWER:
            return Verdict.SLOWER, f"slower{of_what}: {figures}"
        case Verdict.NO_DIFFERENCE:
            return Verdict.NO_DIFFERENCE, no_difference_in_words(figures, of_what)
        case _:
            return Verdict.INCONCLUSIVE, inconclusive(interval, pair_seconds)


def _faster(measured: Comparison, figures: str) -> tuple[Verdict, str]:
    """Return the verdict on a shorter time, by the quality of the model."""
    kind, quality = measured.kind, measured.quality
    good = as_good(measured)
    if good and kind is ComparisonKind.STEPS:
        return Verdict.STEPS_FASTER, f"steps are faster: {figures}"
    if good:
        return Verdict.FASTER, f"faster{kind.qualifier}: {figures}"
    if quality is not None and quality.verdict is QualityVerdict.WORSE:
        assert quality.difference is not None
        return Verdict.WORSE, (
            f"faster but worse: {quality.metric} {fell(quality)} by "
            f"{abs(quality.difference):.4f} ({figures})"
        )
    if kind.of_cut_runs:
        projected = kind.qualifier if kind is ComparisonKind.STEADY else ""
        return Verdict.QUALITY_OPEN, (
            f"steps are faster; quality not established: {figures}{projected}"
        )
    # without a metric to judge by, the line on the quality says why
    reported = quality is not None and (quality.baseline is not None or not quality.metric)
    why = "" if reported else " (the metric was not reported)"
    return Verdict.QUALITY_OPEN, f"training is faster; quality not established{why}: {figures}"


def _by_example(pairs: Sequence[Pair], judgement: Judgement) -> str:
    """Return `; time for each example 1.01x (95% interval ...)`; empty if examples are unknown."""
    sides: list[list[float]] = [[], []]
    for pair in pairs:
        for side, run in zip(sides, (pair.without, pair.with_), strict=True):
            count = examples(run)
            if not count or judgement.kind is ComparisonKind.STEPS:
                return ""
            side.append(total_seconds(run) / count)
    interval = t_interval(log_ratios(*sides))
    return f"; time for each example {interval_in_words(interval)}"
