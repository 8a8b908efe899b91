"""Whether the optimized model is still as good (MEASUREMENT.md, section 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.measure.judgement import Judgement
from tfopt_core.measure.pairs import Pair
from tfopt_core.measure.statistics import t_interval
from tfopt_core.store.results import Quality


def compare_quality(pairs: Sequence[Pair], judgement: Judgement) -> Quality | None:
    """The metric's paired difference, higher is better, with one-sided bounds.

    Not worse: the lower bound lies above -tolerance. Worse: the upper bound lies below it.

    :returns: None if a run lacks the metric or there are fewer than two pairs.
    """
    metric = judgement.metric
    if len(pairs) < 2 or any(
        metric not in run.fit.metrics for pair in pairs for run in (pair.without, pair.with_)
    ):
        return None
    baseline = [pair.without.fit.metrics[metric] for pair in pairs]
    optimized = [pair.with_.fit.metrics[metric] for pair in pairs]
    sign = 1.0 if judgement.direction == "max" else -1.0
    differences = [sign * (o - b) for b, o in zip(baseline, optimized, strict=True)]
    # one-sided bounds at level a are the ends of a two-sided interval at level 2 a
    bounds = t_interval(differences, 2 * judgement.quality_level)
    mean_baseline = math.fsum(baseline) / len(baseline)
    mean_optimized = math.fsum(optimized) / len(optimized)
    tolerance = judgement.tolerance_for(mean_baseline)
    if bounds.low > -tolerance:
        verdict, words = "not worse", "not worse"
    elif bounds.high < -tolerance:
        verdict, words = "worse", "worse"
    else:
        verdict, words = "not established", "not established either way"
    return Quality(
        metric=metric,
        direction=judgement.direction,
        baseline=mean_baseline,
        optimized=mean_optimized,
        difference=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        tolerance=tolerance,
        resolution=_resolution(mean_baseline, judgement),
        certificate=None,
        verdict=verdict,  # type: ignore[arg-type]
        statement=_statement(metric, words, mean_baseline, mean_optimized, bounds.low, bounds.high,
                             tolerance, judgement),
    )  # fmt: skip


def _resolution(share: float, judgement: Judgement) -> float | None:
    """The standard error of a share that the size of the validation set allows."""
    is_share = judgement.direction == "max" and 0 <= share <= 1
    if not is_share or not judgement.examples or not judgement.metric.startswith("val_"):
        return None
    return math.sqrt(share * (1 - share) / judgement.examples)


def _statement(
    metric: str, words: str, baseline: float, optimized: float, low: float, high: float,
    tolerance: float, judgement: Judgement,
) -> str:  # fmt: skip
    # `low` and `high` are oriented; a reader wants the change of the metric itself
    ends = (low, high) if judgement.direction == "max" else (-high, -low)
    text = (
        f"quality {words}: {metric} {baseline:.4f} -> {optimized:.4f} "
        f"(change {ends[0]:+.4f} to {ends[1]:+.4f}, tolerance {tolerance:.4g})"
    )
    resolution = _resolution(baseline, judgement)
    if resolution is not None and judgement.examples is not None:
        text += f"; {judgement.examples:,} examples resolve {resolution:.4f}"
    return text
