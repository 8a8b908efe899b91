"""The verdicts on peak memory: that of the process and, where there is one, of the device."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import Comparison, MemoryContrast, RunResult
from tfopt_core.records.verdict import MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.statistics.claims import (
    as_good,
    fell,
    inconclusive,
    no_claim,
    unlike_training,
)
from tfopt_core.statistics.figures import Pair
from tfopt_core.statistics.intervals import (
    Interval,
    interval_in_words,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import (
    INDIFFERENCE,
    Judgement,
    indifferent,
    verdict_on_interval,
)

# The fields of a run, and what they hold; the one that is judged stands last.
# 1 MiB: what is swapped out is not resident. The counter is that of the whole machine, and some
# pages of processes that sleep are always moved.
SWAPPED_PAGES = 256
PROCESS, DEVICE = "peak_rss_bytes", "peak_device_bytes"
SUBJECTS = {PROCESS: "peak memory", DEVICE: "peak device memory"}


def compare_memory(
    measured: Comparison, pairs: Sequence[Pair], runs: Sequence[RunResult], judgement: Judgement
) -> tuple[MemoryContrast, ...]:
    """Return the contrast of each figure that all runs of the pairs have.

    :param measured: the comparison of the same pairs, with its quality.
    :param runs: all runs of the measurement, failed ones too.
    """
    contrasts = []
    for figure in SUBJECTS:
        peaks = [(getattr(p.without, figure), getattr(p.with_, figure)) for p in pairs]
        if not all(before and after for before, after in peaks):
            continue
        before, after = zip(*peaks, strict=True)
        # of the stack over the baseline: a ratio below 1 is less memory
        interval = t_interval(log_ratios(after, before))
        verdict, statement = _verdict(figure, interval, measured, pairs, runs, judgement)
        ratio, low, high = speedup_interval(interval)
        contrasts.append(
            MemoryContrast(
                figure=figure, verdict=verdict, ratio=ratio, low=low, high=high,
                confidence=interval.confidence, pairs=interval.count, statement=statement,
            )
        )  # fmt: skip
    return tuple(contrasts)


def _verdict(
    figure: str, interval: Interval, measured: Comparison, pairs: Sequence[Pair],
    runs: Sequence[RunResult], judgement: Judgement,
) -> tuple[MemoryVerdict, str]:  # fmt: skip
    """Return the verdict on one ratio, and its statement."""
    judged = [run for pair in pairs for run in (pair.without, pair.with_)]
    subject, figures = _subject(figure, judged), interval_in_words(interval)
    unknown = _unknown(pairs, judged) if figure == PROCESS else None
    if unknown is not None:
        return MemoryVerdict.NONE, f"no verdict on {subject}: {unknown} ({figures})"
    _, low, high = speedup_interval(interval)
    # less memory is to this ratio what less time is to a speedup; it hardly varies from run to run,
    # so that a difference of some pages is sure, and yet is none
    none = Verdict.NO_DIFFERENCE if indifferent(low, high) else None
    match none or verdict_on_interval(1 / high, 1 / low):
        case Verdict.FASTER:
            return _lower(subject, figures, measured, pairs, runs, judgement)
        case Verdict.SLOWER:
            return MemoryVerdict.HEAVIER, f"{subject} higher: {figures}"
        case Verdict.NO_DIFFERENCE:
            return MemoryVerdict.NO_DIFFERENCE, (
                f"no measurable difference in {subject} (within {INDIFFERENCE:.0%}): {figures}"
            )
        case _:
            return MemoryVerdict.INCONCLUSIVE, f"{subject} {inconclusive(interval)}"


def _lower(
    subject: str, figures: str, measured: Comparison, pairs: Sequence[Pair],
    runs: Sequence[RunResult], judgement: Judgement,
) -> tuple[MemoryVerdict, str]:  # fmt: skip
    """Return the verdict on less memory, by what was trained with it."""
    unlike = unlike_training(pairs, judgement)
    if unlike is not None:
        return MemoryVerdict.NONE, f"no verdict on {subject}: {unlike} ({figures})"
    statement = f"{subject} lower: {figures}"
    refused = no_claim(statement, pairs, runs)
    if refused is not None:
        return MemoryVerdict.NONE, refused[1]
    if as_good(measured):
        return MemoryVerdict.LIGHTER, statement
    quality = measured.quality
    if quality is not None and quality.verdict is QualityVerdict.WORSE:
        assert quality.difference is not None
        return MemoryVerdict.WORSE, (
            f"{subject} lower but worse: {quality.metric} {fell(quality)} by "
            f"{abs(quality.difference):.4f} ({figures})"
        )
    return MemoryVerdict.QUALITY_OPEN, f"{subject} lower; quality not established: {figures}"


def _unknown(pairs: Sequence[Pair], judged: Sequence[RunResult]) -> str | None:
    """Return why the resident memory of these runs tells nothing of what they need, if so."""
    swapped = sum(run.disturbance.get("swapped_pages", 0.0) > SWAPPED_PAGES for run in judged)
    if swapped:
        return (
            f"swapping in {swapped} of {len(judged)} runs, and what is swapped out is not resident"
        )
    if any(pair.without.started != pair.with_.started for pair in pairs):
        return "the processes of a pair were started in different ways, which differ in memory"
    return None


def _subject(figure: str, judged: Sequence[RunResult]) -> str:
    """Return what is compared, and of which process or part of a training if not of all."""
    several = any(run.fit.workers > 1 for run in judged)
    cut = any(not run.complete for run in judged)
    return (
        SUBJECTS[figure]
        + (" of the chief" if several else "")
        + (" of runs that were cut short" if cut else "")
    )
