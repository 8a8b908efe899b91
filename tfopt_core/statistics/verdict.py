"""The verdict of a measurement (docs/guide/measuring.md, "Verdicts")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.statistics.certificate import impossible
from tfopt_core.statistics.claims import (
    compare_quality,
    examples,
    fits_into_memory,
    identical_timings,
    inconclusive,
    no_claim,
    unlike_training,
)
from tfopt_core.statistics.figures import (
    INDIFFERENCE,
    Judgement,
    band_in_words,
    compared_seconds,
    indifferent,
    no_difference_in_words,
    total_seconds,
    verdict_on_interval,
)
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    Interval,
    interval_in_words,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.results import (
    Comparison,
    ComparisonKind,
    MemoryContrast,
    MemoryVerdict,
    Quality,
    QualityVerdict,
    Verdict,
)
from tfopt_core.statistics.runs import Pair, RunResult, applied_plugins, pairs_of, runs_of

# A larger relative difference of a loss is another training, and no rounding.
OTHER_LOSS = 1e-4
# 1 MiB: what is swapped out is not resident. The counter is that of the whole machine, and some
# pages of processes that sleep are always moved.
SWAPPED_PAGES = 256
# The fields of a run, and what they hold; the one that is judged stands last.
PROCESS, DEVICE = "peak_rss_bytes", "peak_device_bytes"
SUBJECTS = {PROCESS: "peak memory", DEVICE: "peak device memory"}


@attrs.frozen
class _Evidence:
    """What a verdict is drawn from: the pairs, all runs, failed ones too, and the rules."""

    pairs: Sequence[Pair]
    runs: Sequence[RunResult]
    judgement: Judgement

    @property
    def unlike(self) -> str | None:
        """What the two sides did differently; None if they may, or did not."""
        return unlike_training(self.pairs, self.judgement)


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
    certified = judgement.certificate is not None and judgement.certificate.certified
    if certified and judgement.equivalence == "exact" and (other := fit_that_differs(pairs)):
        why = f"the first fit was replayed, and {other} ends otherwise in each pair"
        judgement = attrs.evolve(judgement, certificate=impossible(why))
    draft = Comparison(
        kind=judgement.kind,
        verdict=Verdict.NONE,
        pairs=len(pairs),
        run_ids=tuple(run.id for run in runs_of(pairs)),
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
        comparison = _judged(draft, _Evidence(pairs, runs, judgement), pair_seconds)
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        note = f"{len(failed)} of {len(runs)} runs failed"
        comparison = attrs.evolve(comparison, statement=f"{comparison.statement}; {note}")
    return comparison


def fit_that_differs(pairs: Sequence[Pair]) -> str:
    """Return the fit that ends with another loss in each pair, while the first one trains alike in
    each; "" if none does. Either the stack changes it, or no two trainings of it are alike."""
    fits = [zip(pair.without.timed_fits, pair.with_.timed_fits, strict=False) for pair in pairs]
    first, *later = list(zip(*fits, strict=False)) or [()]
    whole = all(one.complete for of_pairs in (first, *later) for both in of_pairs for one in both)
    if not whole or any(one.history != other.history for one, other in first):
        return ""
    for of_pairs in later:
        losses = [[one.metrics.get("loss", 0) for one in both] for both in of_pairs]
        if not any(math.isclose(*both, rel_tol=OTHER_LOSS) for both in losses):
            return str(of_pairs[0][0].name)
    return ""


def _judged(draft: Comparison, evidence: _Evidence, pair_seconds: float | None) -> Comparison:
    pairs = evidence.pairs
    if not applied_plugins([pair.with_ for pair in pairs]):
        return attrs.evolve(
            draft,
            verdict=Verdict.NOT_APPLIED,
            statement="not applied: no plugin of the stack took effect in every run, so there is "
            "no gain to report",
        )
    figures = compared_seconds(pairs, draft.kind)
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
    verdict, statement = _verdict(measured, interval, evidence, pair_seconds)
    memory = compare_memory(measured, evidence)
    return attrs.evolve(measured, verdict=verdict, statement=statement, memory=memory)


def _verdict(
    measured: Comparison, interval: Interval, evidence: _Evidence, pair_seconds: float | None
) -> tuple[Verdict, str]:
    """Return the verdict on a speedup with its interval, and its statement."""
    figures, of_what = interval_in_words(interval), measured.kind.qualifier
    _, low, high = speedup_interval(interval)
    if (unlike := evidence.unlike) is not None:
        by_example = _by_example(evidence.pairs, evidence.judgement)
        return Verdict.UNLIKE, f"{unlike}; time{of_what} {figures}{by_example}"
    match verdict_on_interval(low, high):
        case Verdict.FASTER:
            verdict, statement = _faster(measured, figures + band_in_words(high))
            return no_claim(statement, evidence.pairs, evidence.runs) or (verdict, statement)
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
    good = _as_good(measured)
    if good and kind is ComparisonKind.STEPS:
        return Verdict.STEPS_FASTER, f"steps are faster: {figures}"
    if good:
        return Verdict.FASTER, f"faster{kind.qualifier}: {figures}"
    if worse := _worse(quality):
        return Verdict.WORSE, f"faster {worse} ({figures})"
    if kind.of_cut_runs:
        projected = kind.qualifier if kind is ComparisonKind.STEADY else ""
        return Verdict.QUALITY_OPEN, (
            f"steps are faster; quality not established: {figures}{projected}"
        )
    # without a metric to judge by, the line on the quality says why
    reported = quality is not None and (quality.baseline is not None or not quality.metric)
    why = "" if reported else " (the metric was not reported)"
    return Verdict.QUALITY_OPEN, f"training is faster; quality not established{why}: {figures}"


def _as_good(measured: Comparison) -> bool:
    """Return whether the stack's model is shown to be as good, or its runs reached the target."""
    quality = measured.quality
    return measured.kind is ComparisonKind.TIME_TO_TARGET or (
        quality is not None
        and quality.verdict in (QualityVerdict.CERTIFIED, QualityVerdict.NOT_WORSE)
    )


def _worse(quality: Quality | None) -> str:
    """Return `but worse: val_accuracy fell by 0.0120`; "" unless the model is shown to be worse."""
    if quality is None or quality.verdict is not QualityVerdict.WORSE:
        return ""
    assert quality.difference is not None
    moved = "fell" if quality.direction == "max" else "rose"
    return f"but worse: {quality.metric} {moved} by {abs(quality.difference):.4f}"


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


def compare_memory(measured: Comparison, evidence: _Evidence) -> tuple[MemoryContrast, ...]:
    """Return the contrast of each figure that all runs of the pairs have.

    :param measured: the comparison of the same pairs, with its quality.
    """
    contrasts = []
    for figure in SUBJECTS:
        peaks = [(getattr(p.without, figure), getattr(p.with_, figure)) for p in evidence.pairs]
        if not all(before and after for before, after in peaks):
            continue
        before, after = zip(*peaks, strict=True)
        # of the stack over the baseline: a ratio below 1 is less memory
        interval = t_interval(log_ratios(after, before))
        verdict, statement = _memory_verdict(figure, interval, measured, evidence)
        ratio, low, high = speedup_interval(interval)
        contrasts.append(
            MemoryContrast(
                figure=figure, verdict=verdict, ratio=ratio, low=low, high=high,
                confidence=interval.confidence, pairs=interval.count, statement=statement,
            )
        )  # fmt: skip
    return tuple(contrasts)


def _memory_verdict(
    figure: str, interval: Interval, measured: Comparison, evidence: _Evidence
) -> tuple[MemoryVerdict, str]:
    """Return the verdict on one ratio, and its statement."""
    judged = runs_of(evidence.pairs)
    figures, subject = interval_in_words(interval), SUBJECTS[figure]
    if any(run.fit.workers > 1 for run in judged):
        subject += " of the chief"
    if any(not run.complete for run in judged):
        subject += " of runs that were cut short"
    unknown = _memory_unknown(evidence.pairs, judged) if figure == PROCESS else None
    if unknown is not None:
        return MemoryVerdict.NONE, f"no verdict on {subject}: {unknown} ({figures})"
    _, low, high = speedup_interval(interval)
    # less memory is to this ratio what less time is to a speedup; it hardly varies from run to run,
    # so that a difference of some pages is sure, and yet is none
    none = Verdict.NO_DIFFERENCE if indifferent(low, high) else None
    match none or verdict_on_interval(1 / high, 1 / low):
        case Verdict.FASTER:
            return _lower(subject, figures, measured, evidence)
        case Verdict.SLOWER:
            return MemoryVerdict.HEAVIER, f"{subject} higher: {figures}"
        case Verdict.NO_DIFFERENCE:
            same = f"{subject} about the same (within {INDIFFERENCE:.0%}): {figures}"
            return MemoryVerdict.NO_DIFFERENCE, same
        case _:
            return MemoryVerdict.INCONCLUSIVE, f"{subject} {inconclusive(interval)}"


def _lower(
    subject: str, figures: str, measured: Comparison, evidence: _Evidence
) -> tuple[MemoryVerdict, str]:
    """Return the verdict on less memory, by what was trained with it."""
    if (unlike := evidence.unlike) is not None:
        return MemoryVerdict.NONE, f"no verdict on {subject}: {unlike} ({figures})"
    statement = f"{subject} lower: {figures}"
    refused = no_claim(statement, evidence.pairs, evidence.runs)
    if refused is not None:
        return MemoryVerdict.NONE, refused[1]
    if _as_good(measured):
        return MemoryVerdict.LIGHTER, statement
    if worse := _worse(measured.quality):
        return MemoryVerdict.WORSE, f"{subject} lower {worse} ({figures})"
    return MemoryVerdict.QUALITY_OPEN, f"{subject} lower; quality not established: {figures}"


def _memory_unknown(pairs: Sequence[Pair], judged: Sequence[RunResult]) -> str | None:
    """Return why the resident memory of these runs tells nothing of what they need, if so."""
    swapped = sum(run.disturbance.get("swapped_pages", 0.0) > SWAPPED_PAGES for run in judged)
    if swapped:
        return (
            f"swapping in {swapped} of {len(judged)} runs, and what is swapped out is not resident"
        )
    if any(pair.without.started != pair.with_.started for pair in pairs):
        return "the processes of a pair were started in different ways, which differ in memory"
    return None
