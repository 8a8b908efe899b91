"""What decides besides an interval: amounts of training, quality, failures, copied timings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.results import Comparison, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind, QualityVerdict, Verdict
from tfopt_core.statistics.certificate import unlike_counts
from tfopt_core.statistics.figures import (
    Judgement,
    Pair,
    applied_plugins,
    compared_seconds,
    pairs_of,
    runs_of,
)
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    SUSPICIOUS_DEVIATION,
    Interval,
    interval_in_words,
    log_ratios,
    pairs_needed,
    seconds_in_words,
)

# More pairs would take too long, for a difference that is of no interest.
RESOLVABLE_PAIRS = 100


def as_good(measured: Comparison) -> bool:
    """Return whether the stack's model is shown to be as good, or its runs reached the target."""
    quality = measured.quality
    return measured.kind is ComparisonKind.TIME_TO_TARGET or (
        quality is not None
        and quality.verdict in (QualityVerdict.CERTIFIED, QualityVerdict.NOT_WORSE)
    )


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
    invalid = not_finite(runs_of(pairs))
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


def identical_timings(
    pairs: Sequence[Pair], sides: tuple[Sequence[float], Sequence[float]], interval: Interval
) -> bool:
    """Return whether the timings agree as those of real runs never do.

    All pairs have the same ratio; or all runs of a side the same seconds; or two runs agree to
    the nanosecond in their wall time and in each block.

    :param sides: the compared seconds of both sides.
    :param interval: the interval of their log ratios.
    """
    if interval.deviation < SUSPICIOUS_DEVIATION:
        return True
    if len(pairs) >= MINIMUM_PAIRS and any(len(set(side)) == 1 for side in sides):
        return True
    runs = runs_of(pairs)
    timings = [timing for run in runs if (timing := _timing(run)) is not None]
    return len(set(timings)) < len(timings)


def _timing(run: RunResult) -> tuple[float | None, ...] | None:
    """Return everything that was timed in a run, None without blocks. The wall time alone may agree
    by chance if the clock is coarse."""
    blocks = [block.seconds for fit in run.fits for block in fit.blocks]
    return (run.wall_seconds, *blocks) if blocks else None


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


def unlike_amounts(pairs: Sequence[Pair]) -> str | None:
    """Return how the amounts of training differ, in words; None if they are the same.

    `10 epochs in "baseline" and 5 in "full"`. For a run that was cut short the planned amounts
    count. Amounts that are unknown for one side are not compared.
    """
    for what, amount in (("epochs", _epochs), ("steps", _steps), ("examples", examples)):
        unlike = [
            (before, after)
            for before, after in ((amount(p.without), amount(p.with_)) for p in pairs)
            if before is not None and after is not None and before != after
        ]
        if unlike:
            before, after = unlike[0]
            where = (
                "" if len(unlike) == len(pairs) else f" (in {len(unlike)} of {len(pairs)} pairs)"
            )
            one, other = pairs[0].without.variant, pairs[0].with_.variant
            return f'{before:,} {what} in "{one}" and {after:,} in "{other}"{where}'
    return _unlike_counts(pairs)


def _unlike_counts(pairs: Sequence[Pair]) -> str | None:
    """Return which count of what was done differs, in words; None if all are the same."""
    unlike = [
        difference
        for pair in pairs
        for fit, other_fit in zip(pair.without.timed_fits, pair.with_.timed_fits, strict=False)
        if (
            difference := unlike_counts(
                fit.counts, other_fit.counts, whole=fit.complete and other_fit.complete
            )
        )
        is not None
    ]
    if not unlike:
        return None
    one, other = pairs[0].without.variant, pairs[0].with_.variant
    what, before, after = unlike[0]
    return f'{what}: {before} in "{one}" and {after} in "{other}"'


def examples(run: RunResult) -> int | None:
    """Return the examples of a whole training; None if the batch size is unknown."""
    amounts = [
        None
        if (steps := fit.planned_steps) is None or not fit.batch_size
        else steps * fit.batch_size
        for fit in run.timed_fits
    ]
    return _sum(amounts)


def not_finite(runs: Sequence[RunResult]) -> str | None:
    """Return which metric of a run's last epoch is not finite, in words; None if all are.

    `val_auc is nan at the end of 2 of 8 runs`.
    """
    for name in dict.fromkeys(name for run in runs for fit in run.fits for name in fit.history):
        values = [last for run in runs if not math.isfinite(last := _last(run, name))]
        if values:
            return f"{name} is {values[0]} at the end of {len(values)} of {len(runs)} runs"
    return None


def _last(run: RunResult, name: str) -> float:
    """Return the metric's last value in the first fit where it is not finite; 0 if there is
    none."""
    values = [fit.history[name][-1] for fit in run.fits if fit.history.get(name)]
    return next((value for value in values if not math.isfinite(value)), 0.0)


def _epochs(run: RunResult) -> int | None:
    return _sum([fit.epochs if fit.complete else fit.planned_epochs for fit in run.timed_fits])


def _steps(run: RunResult) -> int | None:
    return _sum([fit.planned_steps for fit in run.timed_fits])


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
