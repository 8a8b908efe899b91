"""What decides besides an interval: amounts of training, quality, failures, copied timings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import attrs

from tfopt_core.statistics.certificate import unlike_counts
from tfopt_core.statistics.figures import Judgement
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    QUALITY_LEVEL,
    SUSPICIOUS_DEVIATION,
    Interval,
    interval_in_words,
    pairs_needed,
    seconds_in_words,
    t_interval,
)
from tfopt_core.statistics.results import ComparisonKind, Quality, QualityVerdict, Verdict
from tfopt_core.statistics.runs import (
    BASELINE,
    FULL,
    FitResult,
    Pair,
    RunResult,
    applied_plugins,
    runs_of,
)

# More pairs would take too long, for a difference that is of no interest.
RESOLVABLE_PAIRS = 100


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
    # the wall time alone may agree by chance if the clock is coarse
    blocks = [(run, [b.seconds for fit in run.fits for b in fit.blocks]) for run in runs_of(pairs)]
    timings = [(run.wall_seconds, *seconds) for run, seconds in blocks if seconds]
    return len(set(timings)) < len(timings)


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


def unlike_amounts(pairs: Sequence[Pair]) -> str | None:
    """Return how the amounts of training differ, in words; None if they are the same.

    `10 epochs in "baseline" and 5 in "full"`. For a run that was cut short the planned amounts
    count. Amounts that are unknown for one side are not compared.
    """
    for what, amount in AMOUNTS.items():
        sides = [(_total(p.without, amount), _total(p.with_, amount)) for p in pairs]
        unlike = [
            (before, after)
            for before, after in sides
            if before is not None and after is not None and before != after
        ]
        if unlike:
            before, after = unlike[0]
            where = (
                "" if len(unlike) == len(pairs) else f" (in {len(unlike)} of {len(pairs)} pairs)"
            )
            one, other = pairs[0].without.variant, pairs[0].with_.variant
            return f'{before:,} {what} in "{one}" and {after:,} in "{other}"{where}'
    # which count of what was done differs
    for pair in pairs:
        for ours, theirs in zip(_fits(pair.without), _fits(pair.with_), strict=False):
            whole = ours.complete and theirs.complete
            if found := unlike_counts(ours.counts, theirs.counts, whole=whole):
                what, here, there = found
                one, other = pair.without.variant, pair.with_.variant
                return f'{what}: {here} in "{one}" and {there} in "{other}"'
    return None


def _examples(fit: FitResult) -> int | None:
    steps = fit.planned_steps
    return steps * fit.batch_size if steps is not None and fit.batch_size else None


# Of a fit that was cut short the planned amounts.
AMOUNTS: dict[str, Callable[[FitResult], int | None]] = {
    "epochs": lambda fit: fit.epochs if fit.complete else fit.planned_epochs,
    "steps": lambda fit: fit.planned_steps,
    "examples": _examples,
}


def examples(run: RunResult) -> int | None:
    """Return the examples of a whole training; None if the batch size is unknown."""
    return _total(run, _examples)


def _fits(run: RunResult) -> Iterator[FitResult]:
    """Yield the fits of a run. Behind one that was cut short none counts as whole: the model trains
    on from there, which is elsewhere on each side."""
    whole = True
    for fit in run.timed_fits:
        whole = whole and fit.complete
        yield attrs.evolve(fit, complete=whole)


def _total(run: RunResult, amount: Callable[[FitResult], int | None]) -> int | None:
    amounts = [amount(fit) for fit in _fits(run)]
    known = [one for one in amounts if one is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def not_finite(runs: Sequence[RunResult]) -> str | None:
    """Return which metric of a run's last epoch is not finite, in words; None if all are.

    `val_auc is nan at the end of 2 of 8 runs`.
    """
    for name in dict.fromkeys(name for run in runs for fit in run.fits for name in fit.history):
        # of a run the first fit at whose end it is not finite
        ends = [[f.history[name][-1] for f in run.fits if f.history.get(name)] for run in runs]
        values = [bad[0] for one in ends if (bad := [v for v in one if not math.isfinite(v)])]
        if values:
            return f"{name} is {values[0]} at the end of {len(values)} of {len(runs)} runs"
    return None


NO_METRIC = "the script reports no metric that is known to be better high, or low"


def compare_quality(pairs: Sequence[Pair], judgement: Judgement) -> Quality | None:
    """Return the quality, from the certificate if there is one and the metric's paired difference.

    The difference is higher where it is better, with one-sided bounds. Not worse: the lower bound
    lies above -tolerance. Worse: the upper bound lies below it. A certified stack needs no such
    bound; it is called worse only if it surely is, since the replay has then missed something. A
    metric that is not finite at the end of a run establishes nothing, with a certificate or
    without.

    :returns: without a metric to judge by one without figures; None without a certificate, if a
        finished run lacks the metric or there are fewer than two pairs.
    """
    if not judgement.metric:
        return _without_figures(judgement, NO_METRIC)
    certificate, runs = judgement.certificate, runs_of(pairs)
    statement = None if certificate is None else certificate.statement
    if (invalid := not_finite(runs)) is not None:
        return attrs.evolve(_without_figures(judgement, invalid), certificate=statement)
    measured, whole = _measured(pairs, judgement), _are_whole(runs)
    if measured is None and certificate is None and whole:
        return None
    unknown = "too few runs report it" if whole else "no run trained to its end"
    quality = measured or _without_figures(judgement, unknown)
    quality = attrs.evolve(quality, certificate=statement)
    if certificate is None or not certificate.certified or quality.verdict is QualityVerdict.WORSE:
        return quality
    figures = "" if measured is None else f"; {_means(measured)}"
    return attrs.evolve(
        quality, verdict=QualityVerdict.CERTIFIED, statement=f"{certificate.statement}{figures}"
    )


def _measured(pairs: Sequence[Pair], judgement: Judgement) -> Quality | None:
    """Return the quality by statistics alone; None if a run was cut short or lacks the metric."""
    metric, runs = judgement.metric, runs_of(pairs)
    if len(pairs) < 2 or not _are_whole(runs) or any(run.value_of(metric) is None for run in runs):
        return None
    baseline = [pair.without.value_of(metric) or 0.0 for pair in pairs]
    optimized = [pair.with_.value_of(metric) or 0.0 for pair in pairs]
    sign = 1.0 if judgement.direction == "max" else -1.0
    differences = [sign * (o - b) for b, o in zip(baseline, optimized, strict=True)]
    # one-sided bounds at level a are the ends of a two-sided interval at level 2 a
    bounds = t_interval(differences, 2 * QUALITY_LEVEL)
    mean_baseline = math.fsum(baseline) / len(baseline)
    tolerance = judgement.tolerance_for(mean_baseline)
    verdict = QualityVerdict.NOT_ESTABLISHED
    if bounds.low > -tolerance:
        verdict = QualityVerdict.NOT_WORSE
    elif bounds.high < -tolerance:
        verdict = QualityVerdict.WORSE
    quality = Quality(
        metric=metric,
        direction=judgement.direction,
        baseline=mean_baseline,
        optimized=math.fsum(optimized) / len(optimized),
        difference=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        tolerance=tolerance,
        resolution=_resolution(mean_baseline, judgement),
        verdict=verdict,
        statement="",
    )
    return attrs.evolve(quality, statement=_quality_in_words(quality, judgement))


def _without_figures(judgement: Judgement, why: str) -> Quality:
    by = f" by {judgement.metric}" if judgement.metric else ""
    return Quality(
        metric=judgement.metric, direction=judgement.direction, tolerance=judgement.tolerance,
        verdict=QualityVerdict.NOT_ESTABLISHED, statement=f"quality not established{by}: {why}",
    )  # fmt: skip


def _are_whole(runs: Sequence[RunResult]) -> bool:
    """Return whether no run was cut short, so that its metrics are a result."""
    return all(run.complete for run in runs)


def _resolution(share: float, judgement: Judgement) -> float | None:
    """Return the standard error of a share, given the size of the validation set."""
    is_share = judgement.direction == "max" and 0 <= share <= 1
    if not is_share or not judgement.examples or not judgement.metric.startswith("val_"):
        return None
    return math.sqrt(share * (1 - share) / judgement.examples)


def _means(quality: Quality) -> str:
    return f"{quality.metric} {quality.baseline:.4f} -> {quality.optimized:.4f}"


def _quality_in_words(quality: Quality, judgement: Judgement) -> str:
    assert quality.low is not None
    assert quality.high is not None
    # in `low` and `high` higher is better; show the change of the metric itself
    ends = (quality.low, quality.high)
    if judgement.direction == "min":
        ends = (-quality.high, -quality.low)
    either_way = " either way" if quality.verdict is QualityVerdict.NOT_ESTABLISHED else ""
    text = (
        f"quality {quality.verdict}{either_way}: {_means(quality)} "
        f"(change {ends[0]:+.4f} to {ends[1]:+.4f}, tolerance {quality.tolerance:.4g})"
    )
    if quality.resolution is not None and judgement.examples is not None:
        text += f"; sampling error of {judgement.examples:,} examples: {quality.resolution:.4f}"
    return text
