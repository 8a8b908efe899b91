"""Decide what may be claimed of a gain, in time or in memory, besides its interval."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import Comparison, Quality, RunResult
from tfopt_core.records.variants import FULL
from tfopt_core.records.verdict import ComparisonKind, QualityVerdict, Verdict
from tfopt_core.statistics.intervals import Interval, pairs_needed
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import Pair
from tfopt_core.statistics.verdicts.amounts import not_finite, unlike_amounts
from tfopt_core.statistics.wording import interval_in_words, seconds_in_words

# More pairs would take too long, for a difference that is of no interest.
RESOLVABLE_PAIRS = 100


def as_good(measured: Comparison) -> bool:
    """Return whether the stack's model is shown to be as good, or its runs reached the target."""
    quality = measured.quality
    return measured.kind is ComparisonKind.TIME_TO_TARGET or (
        quality is not None
        and quality.verdict in (QualityVerdict.CERTIFIED, QualityVerdict.NOT_WORSE)
    )


def fell(quality: Quality) -> str:
    """Return which way the metric of a worse model moved."""
    return "fell" if quality.direction == "max" else "rose"


def no_claim(
    statement: str, pairs: Sequence[Pair], runs: Sequence[RunResult]
) -> tuple[Verdict, str] | None:
    """Return the verdict in place of a gain that the runs do not support; None if they do."""
    failed = sum(run.status == "failed" and run.variant == FULL for run in runs)
    if failed:
        return Verdict.NONE, (
            f"no verdict: {failed} of the runs with the stack failed (those that ended well: "
            f"{statement})"
        )
    invalid = not_finite([run for pair in pairs for run in (pair.without, pair.with_)])
    if invalid is not None:
        return Verdict.VOID, f"no verdict: {invalid} ({statement})"
    return None


def unlike_training(pairs: Sequence[Pair], judgement: Judgement) -> str | None:
    """Return what the two sides did differently; None if they may, or did not.

    The way to a target may be of any length.
    """
    if judgement.equivalence == "changes":
        return None
    to_target = judgement.kind is ComparisonKind.TIME_TO_TARGET
    amounts = None if to_target else unlike_amounts(pairs)
    if amounts is not None:
        return f"unlike: {amounts}"
    certificate = judgement.certificate
    if certificate is not None and certificate.other_examples:
        return f"unlike: other data; {certificate.statement}"
    return None


def inconclusive(interval: Interval, pair_seconds: float | None = None) -> str:
    """Return the statement on an interval that shows nothing yet, with what it would take.

    :param pair_seconds: the seconds of another pair, None if unknown.
    """
    needed = pairs_needed(interval)
    time = f" (about {seconds_in_words(needed * pair_seconds)})" if pair_seconds else ""
    what = f"--pairs {needed} would tell{time}"
    if needed > RESOLVABLE_PAIRS:
        what = "not resolvable at this machine's noise"
    return f"inconclusive: {interval_in_words(interval)}; {what}"
