"""Judge two training loops that took turns in one training (`tfopt train --adapt`).

Blocks of the two alternate in quads. Each quad gives one log ratio, and their interval is that of
the paired design, at looks after 4, 8 and 12 quads. Pure functions.
`tfopt_core/trials/alternate.py` forms the quads while a training runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.records.in_run import InRun, InRunVerdict, Quad
from tfopt_core.statistics.intervals import (
    LOOKS,
    SUSPICIOUS_DEVIATION,
    Interval,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import INDIFFERENCE, band_in_words, verdict_on_interval
from tfopt_core.statistics.wording import ends_in_words


def conclude(
    alternative: str,
    reference: str,
    quads: Sequence[Quad],
    level: float,
    *,
    ended: str = "",
    widest: float = math.inf,
) -> InRun | None:
    """Return the verdict on the quads so far, None if more quads are needed.

    :param level: the two-sided nominal level of an interval at a look.
    :param ended: why no more quads come; empty while they do.
    :param widest: the largest high / low of an interval by which gains of two loops are compared.
    """
    looked = max((look for look in LOOKS if look <= len(quads)), default=0)
    if not looked:
        if not ended:
            return None
        return not_compared(alternative, reference, ended, quads)
    interval = _interval(quads[:looked], level)
    verdict, words = _judged(alternative, reference, interval)
    if verdict is InRunVerdict.INCONCLUSIVE:
        if not ended and looked < LOOKS[-1]:
            return None
        why = f": {ended}" if ended else f" in {2 * looked} blocks of each"
        words += f", not resolvable{why} ({_figures(interval)})"
    speedup, low, high = speedup_interval(interval)
    if verdict is InRunVerdict.FASTER and high / low > widest and not ended and looked < LOOKS[-1]:
        return None
    return InRun(
        alternative=alternative, reference=reference, verdict=verdict, speedup=speedup, low=low,
        high=high, confidence=interval.confidence, quads=looked, statement=f"in-run: {words}",
        samples=tuple(quads),
    )  # fmt: skip


def _interval(quads: Sequence[Quad], level: float) -> Interval:
    """Return the t interval of the quads' log ratios, widened to the spread within quads.

    A periodic load may hit the same side in every quad: the log ratios then agree although the
    blocks of one side do not.
    """
    interval = t_interval([quad.log_ratio for quad in quads], level)
    within = math.sqrt(math.fsum(quad.variance for quad in quads) / len(quads))
    if interval.deviation < SUSPICIOUS_DEVIATION or interval.deviation >= within:
        return interval
    half = (interval.high - interval.mean) * within / interval.deviation
    return attrs.evolve(
        interval, low=interval.mean - half, high=interval.mean + half, deviation=within
    )


def not_compared(
    alternative: str,
    reference: str,
    reason: str,
    quads: Sequence[Quad] = (),
    *,
    verdict: InRunVerdict = InRunVerdict.NOT_COMPARED,
) -> InRun:
    """Return an alternative without a figure, and why."""
    outcome = verdict if verdict is InRunVerdict.DROPPED else InRunVerdict.NOT_COMPARED
    return InRun(
        alternative=alternative, reference=reference, verdict=verdict,
        statement=f"in-run: {alternative} {outcome}: {reason}", samples=tuple(quads),
    )  # fmt: skip


def _judged(alternative: str, reference: str, interval: Interval) -> tuple[InRunVerdict, str]:
    if interval.deviation < SUSPICIOUS_DEVIATION:
        return InRunVerdict.SUSPICIOUS, (
            f"no verdict on {alternative}: suspiciously identical ratios to {reference}, which "
            "real timings never have"
        )
    speedup, low, high = speedup_interval(interval)
    figures = _figures(interval)
    match InRunVerdict(verdict_on_interval(low, high)):
        case InRunVerdict.FASTER as verdict:
            words = f"{alternative} is {speedup:.2f}x faster a step than {reference} ({figures})"
            words += band_in_words(high)
        case InRunVerdict.SLOWER as verdict:
            words = f"{alternative} is slower a step than {reference}: {speedup:.2f}x ({figures})"
        case InRunVerdict.NO_DIFFERENCE as verdict:
            words = (
                f"no measurable difference (within {INDIFFERENCE:.0%}) between {alternative} and "
                f"{reference} ({figures})"
            )
        case verdict:
            words = f"inconclusive whether {alternative} is faster a step than {reference}"
    return verdict, words


def _figures(interval: Interval) -> str:
    """Return the interval in words: `98% interval 2.95 to 3.26, 8 blocks of each`."""
    return f"{ends_in_words(interval)}, {2 * interval.count} blocks of each"
