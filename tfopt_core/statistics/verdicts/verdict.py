"""The verdict of a measurement (docs/guide/measuring.md, "Verdicts")."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.records.results import Comparison, Quality, RunResult
from tfopt_core.records.variants import FULL
from tfopt_core.statistics.disturbance import no_difference_claimed, on_one_side
from tfopt_core.statistics.figures import compared_seconds, total_seconds
from tfopt_core.statistics.intervals import (
    FIXED_LEVEL,
    LOOKS,
    MINIMUM_PAIRS,
    Interval,
    detectable_ratio,
    log_ratios,
    pairs_needed,
    shown_direction,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import INDIFFERENCE, Judgement
from tfopt_core.statistics.pairs import Pair, applied_plugins, pairs_of
from tfopt_core.statistics.verdicts.amounts import examples, not_finite, unlike_amounts
from tfopt_core.statistics.verdicts.break_even import break_even_step, not_repaid
from tfopt_core.statistics.verdicts.quality import compare_quality
from tfopt_core.statistics.verdicts.suspicion import identical_timings
from tfopt_core.statistics.wording import gain_in_words, interval_in_words, seconds_in_words

# More pairs would take too long, for a difference that is of no interest.
RESOLVABLE_PAIRS = 100
# The figure that a verdict is about, if it is not the wall time of a whole training.
_OF_KIND = {"time-to-target": " to the target", "steady": " (projected)", "steps": " of a step"}
# Verdicts that more pairs could not change.
SETTLED = frozenset({
    "faster", "slower", "steps faster", "steps slower", "no difference", "disturbed", "worse",
    "unlike", "not applied", "suspicious", "void",
})  # fmt: skip


def compare(
    runs: Sequence[RunResult], judgement: Judgement, pair_seconds: float | None = None
) -> Comparison:
    """Judge the baseline against the full stack and return the comparison.

    :param runs: all runs of the measurement, failed ones too.
    :param pair_seconds: the seconds of another pair, for "needs about N more pairs (about T)".
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
        break_even_step=break_even_step(pairs, judgement.level),
        detectable=detectable_ratio(interval),
    )  # fmt: skip
    verdict, statement = _statement(measured, interval, pairs, judgement)
    if verdict in ("faster", "steps faster", "quality open", "worse"):
        claim = _no_claim(statement, pairs, runs)
        verdict, statement = claim or (verdict, statement)
    elif verdict == "no difference":
        judged = [run for pair in pairs for run in (pair.without, pair.with_)]
        disturbed = no_difference_claimed(
            judged, interval_in_words(interval), _OF_KIND.get(measured.kind, "")
        )
        if disturbed is not None:
            verdict, statement = "disturbed", disturbed
    elif verdict == "inconclusive":
        statement = _inconclusive(interval, pair_seconds)
    if judgement.kind == "end-to-end":
        statement += not_repaid(measured.break_even_step, pairs)
    return attrs.evolve(measured, verdict=verdict, statement=statement)


def _statement(
    measured: Comparison, interval: Interval, pairs: Sequence[Pair], judgement: Judgement
) -> tuple[str, str]:
    """Return the verdict that the figures alone support, with its statement."""
    assert measured.low is not None
    assert measured.high is not None
    figures = interval_in_words(interval)
    of_kind = _OF_KIND.get(measured.kind, "")
    unlike = None if judgement.math == "changes" else _unlike(pairs, judgement)
    if unlike is not None:
        return "unlike", f"{unlike}; time{of_kind} {figures}{_by_example(pairs, judgement)}"
    shown = shown_direction(interval)
    if shown == "faster":
        return _faster(measured, figures, of_kind)
    if shown == "slower":
        if measured.kind == "steps":
            return "steps slower", f"steps are slower: {figures}"
        return "slower", f"slower{of_kind}: {figures}"
    band = 1 / (1 + INDIFFERENCE), 1 + INDIFFERENCE
    if band[0] <= measured.low <= 1 <= measured.high <= band[1]:
        return "no difference", (
            f"no measurable difference{of_kind} (within {INDIFFERENCE:.0%}): {figures}"
        )
    return "inconclusive", ""


def _faster(measured: Comparison, figures: str, of_kind: str) -> tuple[str, str]:
    assert measured.high is not None
    band = f" (within the {INDIFFERENCE:.0%} band)" if measured.high < 1 + INDIFFERENCE else ""
    if measured.kind == "time-to-target":
        return "faster", f"faster{of_kind}: {figures}{band}"
    quality = measured.quality
    if quality is not None and quality.verdict == "worse":
        assert quality.difference is not None
        return "worse", (
            f"faster but worse: {quality.metric} {_fell(quality)} by "
            f"{abs(quality.difference):.4f} ({figures})"
        )
    if quality is not None and quality.verdict != "not established":
        if measured.kind == "steps":
            return "steps faster", f"steps are faster: {figures}{band}"
        return "faster", f"faster{of_kind}: {figures}{band}"
    if measured.kind in ("steady", "steps"):
        projected = of_kind if measured.kind == "steady" else ""
        return "quality open", (
            f"steps are faster; quality not established: {figures}{band}{projected}"
        )
    reported = quality is not None and quality.baseline is not None
    why = "" if reported else " (the metric was not reported)"
    return "quality open", f"training is faster; quality not established{why}: {figures}{band}"


def _fell(quality: Quality) -> str:
    return "fell" if quality.direction == "max" else "rose"


def _no_claim(
    statement: str, pairs: Sequence[Pair], runs: Sequence[RunResult]
) -> tuple[str, str] | None:
    """Return the verdict in place of a gain that must not be claimed; None if it may be."""
    failed = sum(run.status == "failed" and run.variant == FULL for run in runs)
    if failed:
        return "none", (
            f"no verdict: {failed} of the runs with the stack failed (those that ended well: "
            f"{statement})"
        )
    invalid = not_finite([run for pair in pairs for run in (pair.without, pair.with_)])
    if invalid is not None:
        return "void", f"no verdict: {invalid} ({statement})"
    one_sided = on_one_side(pairs)
    if one_sided is not None:
        return "disturbed", (
            f"no verdict: {one_sided}, which may be its own doing and is not the same in every "
            f"measurement ({statement})"
        )
    return None


def _unlike(pairs: Sequence[Pair], judgement: Judgement) -> str | None:
    """Return how the two sides' amounts of training or data differ; None if they do not."""
    amounts = unlike_amounts(pairs)
    if amounts is not None:
        return f"training of unlike length: {amounts}"
    certificate = judgement.certificate
    if certificate is not None and certificate.other_examples:
        return f"training of other data: {certificate.statement}"
    return None


def _by_example(pairs: Sequence[Pair], judgement: Judgement) -> str:
    """Return `; time for each example 1.01x (95% interval ...)`; empty if examples are unknown."""
    sides: list[list[float]] = [[], []]
    for pair in pairs:
        for side, run in zip(sides, (pair.without, pair.with_), strict=True):
            count = examples(run)
            if not count or judgement.kind == "steps":
                return ""
            side.append(total_seconds(run) / count)
    interval = t_interval(log_ratios(*sides), judgement.level)
    return f"; time for each example {interval_in_words(interval)}"


def _inconclusive(interval: Interval, pair_seconds: float | None) -> str:
    figures = interval_in_words(interval)
    gain = gain_in_words(detectable_ratio(interval))
    power = f"; {interval.count} pairs would have shown a gain of {gain} in 9 of 10 cases"
    needed = pairs_needed(interval)
    past_the_last_look = interval.level != FIXED_LEVEL and interval.count >= LOOKS[-1]
    if past_the_last_look or needed > RESOLVABLE_PAIRS:
        return f"inconclusive: not resolvable at this machine's noise ({figures}){power}"
    more = needed - interval.count
    time = f" (about {seconds_in_words(more * pair_seconds)})" if pair_seconds else ""
    if not interval.low <= 0 <= interval.high:
        return (
            f"inconclusive: a difference this small takes {needed} pairs, {more} more{time}; "
            f"so far {figures}{power}"
        )
    return f"inconclusive: needs about {more} more pairs{time}; so far {figures}{power}"
