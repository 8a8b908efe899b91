"""Judge whether the optimized model is still as good (docs/guide/measuring.md, "Quality")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.records.results import Quality
from tfopt_core.records.verdict import QualityVerdict
from tfopt_core.statistics.claims import not_finite
from tfopt_core.statistics.figures import Judgement, Pair, runs_of
from tfopt_core.statistics.intervals import QUALITY_LEVEL, t_interval

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
    certificate = judgement.certificate
    invalid = not_finite(runs_of(pairs))
    if invalid is not None:
        quality = _without_figures(judgement, invalid)
        statement = None if certificate is None else certificate.statement
        return attrs.evolve(quality, certificate=statement)
    measured = _measured(pairs, judgement)
    if certificate is None:
        if measured is None and _cut_short(pairs):
            return _without_figures(judgement, "no run trained to its end")
        return measured
    if measured is None:
        unknown = "no run trained to its end" if _cut_short(pairs) else "too few runs report it"
        quality = _without_figures(judgement, unknown)
    else:
        quality = measured
    quality = attrs.evolve(quality, certificate=certificate.statement)
    if not certificate.certified or quality.verdict is QualityVerdict.WORSE:
        return quality
    figures = "" if measured is None else f"; {_means(measured)}"
    return attrs.evolve(
        quality, verdict=QualityVerdict.CERTIFIED, statement=f"{certificate.statement}{figures}"
    )


def _measured(pairs: Sequence[Pair], judgement: Judgement) -> Quality | None:
    """Return the quality by statistics alone; None if a run was cut short or lacks the metric."""
    metric = judgement.metric
    if len(pairs) < 2 or any(
        run.value_of(metric) is None or not run.complete
        for pair in pairs
        for run in (pair.without, pair.with_)
    ):
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
    return attrs.evolve(
        quality, statement=_statement(quality, bounds.low, bounds.high, tolerance, judgement)
    )


def _without_figures(judgement: Judgement, why: str) -> Quality:
    by = f" by {judgement.metric}" if judgement.metric else ""
    return Quality(
        metric=judgement.metric, direction=judgement.direction, tolerance=judgement.tolerance,
        verdict=QualityVerdict.NOT_ESTABLISHED, statement=f"quality not established{by}: {why}",
    )  # fmt: skip


def _cut_short(pairs: Sequence[Pair]) -> bool:
    """Return whether some run was cut short, so that its metrics are no result."""
    return any(not run.complete for pair in pairs for run in (pair.without, pair.with_))


def _resolution(share: float, judgement: Judgement) -> float | None:
    """Return the standard error of a share, given the size of the validation set."""
    is_share = judgement.direction == "max" and 0 <= share <= 1
    if not is_share or not judgement.examples or not judgement.metric.startswith("val_"):
        return None
    return math.sqrt(share * (1 - share) / judgement.examples)


def _means(quality: Quality) -> str:
    return f"{quality.metric} {quality.baseline:.4f} -> {quality.optimized:.4f}"


def _statement(
    quality: Quality, low: float, high: float, tolerance: float, judgement: Judgement
) -> str:
    # in `low` and `high` higher is better; show the change of the metric itself
    ends = (low, high) if judgement.direction == "max" else (-high, -low)
    either_way = " either way" if quality.verdict is QualityVerdict.NOT_ESTABLISHED else ""
    text = (
        f"quality {quality.verdict}{either_way}: {_means(quality)} "
        f"(change {ends[0]:+.4f} to {ends[1]:+.4f}, tolerance {tolerance:.4g})"
    )
    if quality.resolution is not None and judgement.examples is not None:
        text += f"; sampling error of {judgement.examples:,} examples: {quality.resolution:.4f}"
    return text
