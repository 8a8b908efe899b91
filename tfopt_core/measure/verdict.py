"""The verdict: a pure function of the runs. Each statement of MEASUREMENT.md, section 10."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.measure.disturbance import no_difference_claimed
from tfopt_core.measure.figures import compared_seconds
from tfopt_core.measure.judgement import INDIFFERENCE, Judgement
from tfopt_core.measure.pairs import Pair, applied_plugins, pairs_of, wall_seconds
from tfopt_core.measure.quality import compare_quality
from tfopt_core.measure.schedule import FULL
from tfopt_core.measure.statistics import (
    FIXED_LEVEL,
    LOOKS,
    MINIMUM_PAIRS,
    Interval,
    log_ratios,
    median,
    pairs_needed,
    speedup_interval,
    t_interval,
)
from tfopt_core.measure.suspicion import identical_timings
from tfopt_core.measure.wording import seconds_in_words
from tfopt_core.store.results import Comparison, Quality, RunResult

# Past so many pairs nobody waits, and what is left to find is of no interest to anybody.
RESOLVABLE_PAIRS = 100
# What is added to "faster" and "slower": of which figure that is true.
_OF_KIND = {"time-to-target": " to the target", "steady": " (projected)"}
# Verdicts after which more pairs could change nothing that is printed.
SETTLED = frozenset(
    {"faster", "slower", "no difference", "disturbed", "worse", "not applied", "suspicious", "void"}
)


def compare(
    runs: Sequence[RunResult], judgement: Judgement, pair_seconds: float | None = None
) -> Comparison:
    """Judge the baseline against the full stack.

    :param runs: all runs of the measurement, failed ones too.
    :param pair_seconds: what another pair would take, for "needs about N more pairs (about T)".
    """
    pairs = pairs_of(runs)
    draft = Comparison(
        kind=judgement.kind,
        verdict="none",
        speedup=None,
        low=None,
        high=None,
        confidence=None,
        pairs=len(pairs),
        run_ids=tuple(run_id for pair in pairs for run_id in pair.run_ids),
        statement="",
        quality=compare_quality(pairs, judgement),
    )
    comparison = _judged(draft, pairs, runs, judgement, pair_seconds)
    failed = [run for run in runs if run.status == "failed"]
    if failed:
        counted = sum(run.status != "repeated" for run in runs)
        note = f"{len(failed)} of {counted} runs failed"
        comparison = attrs.evolve(comparison, statement=f"{comparison.statement}; {note}")
    return comparison


def _judged(
    draft: Comparison, pairs: Sequence[Pair], runs: Sequence[RunResult], judgement: Judgement,
    pair_seconds: float | None,
) -> Comparison:  # fmt: skip
    if len(pairs) < MINIMUM_PAIRS:
        return attrs.evolve(
            draft,
            statement=f"no verdict: {len(pairs)} complete pairs, and it takes {MINIMUM_PAIRS}",
        )
    if not applied_plugins([pair.with_ for pair in pairs]):
        return attrs.evolve(
            draft,
            verdict="not applied",
            statement="not applied: no plugin of the stack took effect in every run, so there is "
            "no gain to report",
        )
    figures = compared_seconds(pairs, judgement)
    if isinstance(figures, str):
        return attrs.evolve(draft, verdict="void", statement=figures)
    interval = t_interval(log_ratios(*figures), judgement.level)
    if identical_timings(pairs, figures, interval):
        return attrs.evolve(
            draft,
            verdict="suspicious",
            statement="no verdict: suspiciously identical timings, which real runs never have",
        )
    speedup, low, high = speedup_interval(interval)
    measured = attrs.evolve(
        draft, speedup=speedup, low=low, high=high, confidence=interval.confidence,
        break_even_step=break_even_step(pairs),
    )  # fmt: skip
    verdict, statement = _statement(measured, interval, runs, pair_seconds)
    if verdict == "no difference":
        judged = [run for pair in pairs for run in (pair.without, pair.with_)]
        disturbed = no_difference_claimed(
            judged, interval_in_words(interval), _OF_KIND.get(measured.kind, "")
        )
        if disturbed is not None:
            verdict, statement = "disturbed", disturbed
    if judgement.kind == "end-to-end":
        statement += _not_repaid(measured, pairs)
    return attrs.evolve(measured, verdict=verdict, statement=statement)


def _statement(
    measured: Comparison, interval: Interval, runs: Sequence[RunResult], pair_seconds: float | None
) -> tuple[str, str]:
    assert measured.low is not None
    assert measured.high is not None
    figures = interval_in_words(interval)
    target = _OF_KIND.get(measured.kind, "")
    if measured.low > 1:
        failed = sum(run.status == "failed" and run.variant == FULL for run in runs)
        if failed:
            return "none", (
                f"no verdict: the runs that ended well are faster{target} ({figures}), but "
                f"{failed} with the stack failed"
            )
        return _faster(measured, figures, target)
    if measured.high < 1:
        return "slower", f"slower{target}: {figures}"
    if measured.low >= 1 / (1 + INDIFFERENCE) and measured.high <= 1 + INDIFFERENCE:
        return "no difference", (
            f"no measurable difference{target} (within {INDIFFERENCE:.0%}): {figures}"
        )
    return "inconclusive", _inconclusive(interval, figures, pair_seconds)


def _faster(measured: Comparison, figures: str, target: str) -> tuple[str, str]:
    assert measured.high is not None
    band = f" (within the {INDIFFERENCE:.0%} band)" if measured.high < 1 + INDIFFERENCE else ""
    if measured.kind == "time-to-target":
        return "faster", f"faster{target}: {figures}{band}"
    quality = measured.quality
    if quality is not None and quality.verdict == "worse":
        assert quality.difference is not None
        return "worse", (
            f"faster but worse: {quality.metric} {_fell(quality)} by "
            f"{abs(quality.difference):.4f} ({figures})"
        )
    if quality is not None and quality.verdict != "not established":
        return "faster", f"faster{target}: {figures}{band}"
    if measured.kind == "steady":
        return "quality open", (
            f"steps are faster; quality not established: {figures}{band}{target}"
        )
    reported = quality is not None and quality.baseline is not None
    why = "" if reported else " (the metric was not reported)"
    return "quality open", f"training is faster; quality not established{why}: {figures}{band}"


def _fell(quality: Quality) -> str:
    return "fell" if quality.direction == "max" else "rose"


def _inconclusive(interval: Interval, figures: str, pair_seconds: float | None) -> str:
    needed = pairs_needed(interval)
    past_the_last_look = interval.level != FIXED_LEVEL and interval.count >= LOOKS[-1]
    if past_the_last_look or needed > RESOLVABLE_PAIRS:
        return f"inconclusive: not resolvable at this machine's noise ({figures})"
    more = needed - interval.count
    time = f" (about {seconds_in_words(more * pair_seconds)})" if pair_seconds else ""
    return f"inconclusive: needs about {more} more pairs{time}; so far {figures}"


def interval_in_words(interval: Interval) -> str:
    """`1.25x (98% interval 1.24 to 1.26, 4 pairs)`."""
    speedup, *ends = speedup_interval(interval)
    digits = 2
    while digits < 5 and any(round(end, digits) == 1 and end != 1 for end in ends):
        digits += 1  # an end must show on which side of 1 it lies
    low, high = (f"{end:.{digits}f}" for end in ends)
    return (
        f"{speedup:.2f}x ({confidence_in_words(interval)} interval {low} to {high}, "
        f"{interval.count} pairs)"
    )


def confidence_in_words(interval: Interval) -> str:
    """`98%`, with a decimal where a whole number would claim certainty."""
    percent = 100 * interval.confidence
    return f"{percent:.0f}%" if percent < 99 else f"{percent:.1f}%"


def break_even_step(pairs: Sequence[Pair]) -> int | None:
    """The step after which a dearer start is repaid by faster steps; None if there is none, or
    if a run has no steady step time to tell it by.

    (C_opt - C_base) / (s_base - s_opt), from the medians over the pairs.
    """
    one_time, steps = [], []
    for side in ([p.without for p in pairs], [p.with_ for p in pairs]):
        seconds = [
            run.fit.step_seconds
            for run in side
            if run.fit.step_seconds is not None and run.fit.steady
        ]
        if len(seconds) < len(side):
            return None
        one_time.append(median([run.fit.one_time_seconds for run in side]))
        steps.append(median(seconds))
    dearer, gain = one_time[1] - one_time[0], steps[0] - steps[1]
    return round(dearer / gain) if dearer > 0 and gain > 0 else None


def _not_repaid(measured: Comparison, pairs: Sequence[Pair]) -> str:
    walls = [median([wall_seconds(run) for run in side])
             for side in ([p.without for p in pairs], [p.with_ for p in pairs])]  # fmt: skip
    if measured.break_even_step is None or walls[1] < walls[0]:
        return ""
    return f"; start-up cost not repaid before step {measured.break_even_step:,}"
