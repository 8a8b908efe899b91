"""Compare the quality of two stacks, each measured against its own baseline."""

from __future__ import annotations

import math

import attrs

from tfopt_core.records.verdict import QualityVerdict
from tfopt_core.statistics.across.comparable import Measured
from tfopt_core.statistics.welch import WelchInterval, welch_interval


@attrs.frozen(kw_only=True)
class QualityContrast:
    """The difference of the paired differences, B's less A's, in the metric's own unit.

    Positive is better. The figures are None if there is nothing to compare; the statement says why.
    """

    metric: str | None
    difference: float | None
    low: float | None
    high: float | None
    statement: str


def contrast_quality(a: Measured, b: Measured, level: float) -> QualityContrast:
    """Return the contrast of what the two stacks change of the metric.

    Measurements that may be compared have the same metric, if both have one.

    :param level: the two-sided error rate of the interval.
    """
    qualities = a.results.comparison.quality, b.results.comparison.quality
    if qualities[0] is None or qualities[1] is None:
        missing = " and ".join(n for n, q in zip("AB", qualities, strict=True) if q is None)
        return _nothing(None, f"there is no quality of {missing}")
    metric = qualities[0].metric
    if all(quality.verdict is QualityVerdict.CERTIFIED for quality in qualities if quality):
        return _nothing(metric, "both stacks are certified to train as their baselines do")
    sign = 1.0 if qualities[0].direction == "max" else -1.0
    here, there = _changes(a, metric), _changes(b, metric)
    if isinstance(here, str):
        return _nothing(metric, here)
    if isinstance(there, str):
        return _nothing(metric, there)
    first, second = ([sign * change for change in changes] for changes in (here, there))
    if len({*first}) == len({*second}) == 1:
        return _without_spread(metric, second[0] - first[0], sign)
    interval = welch_interval(first, second, level)
    return QualityContrast(
        metric=metric,
        difference=interval.difference,
        low=interval.low,
        high=interval.high,
        statement=_statement(metric, interval, sign),
    )


def _changes(side: Measured, metric: str) -> list[float] | str:
    """Return the metric with the stack less that without it, per pair; or why there is none."""
    runs = [(pair.without, pair.with_) for pair in side.pairs]
    fits = [(without.fit, with_.fit) for without, with_ in runs]
    if not all(fit.complete for pair in fits for fit in pair):
        return "runs ended once their step time was known, before the end of their training"
    values = [[fit.metrics.get(metric, math.nan) for fit in pair] for pair in fits]
    if not all(math.isfinite(value) for pair in values for value in pair):
        return f"{metric} is no number in some runs"
    return [with_ - without for without, with_ in values]


def _nothing(metric: str | None, why: str) -> QualityContrast:
    return QualityContrast(
        metric=metric, difference=None, low=None, high=None,
        statement=f"quality not compared: {why}",
    )  # fmt: skip


def _without_spread(metric: str, difference: float, sign: float) -> QualityContrast:
    """Return the contrast of changes that are the same in every pair. Exact plugins can change the
    metric by the same amount, usually 0, in every pair."""
    if difference == 0:
        statement = f"quality the same: both stacks change {metric} alike, in every pair"
    else:
        statement = (
            f"quality {'better' if difference > 0 else 'worse'} with B's stack: {metric} changes "
            f"by {sign * difference:+.4f} more in every pair"
        )
    return QualityContrast(
        metric=metric, difference=difference, low=difference, high=difference, statement=statement
    )


def _statement(metric: str, interval: WelchInterval, sign: float) -> str:
    # in the interval higher is better; show the change of the metric itself
    low, high = sorted((sign * interval.low, sign * interval.high))
    figures = (
        f"{metric} {sign * interval.difference:+.4f} against A's ({interval.confidence:.0%} "
        f"interval {low:+.4f} to {high:+.4f})"
    )
    if interval.low > 0:
        return f"quality better with B's stack: {figures}"
    if interval.high < 0:
        return f"quality worse with B's stack: {figures}"
    return f"no difference in quality established, nor ruled out: B's {figures}"
