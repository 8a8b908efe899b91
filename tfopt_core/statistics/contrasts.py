"""Judge what each plugin contributes to a stack, and what plugins that are not exact add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.hooks.card import Equivalence
from tfopt_core.records.results import Addition, Attribution, RunResult
from tfopt_core.records.variants import BASELINE, FULL, Contrast
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.claims import identical_timings, inconclusive, not_finite, unlike_amounts
from tfopt_core.statistics.figures import Pair, compared_seconds, pairs_of
from tfopt_core.statistics.intervals import (
    LEVEL,
    MINIMUM_PAIRS,
    Interval,
    interval_in_words,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import Judgement, verdict_on_interval
from tfopt_core.statistics.quality import compare_quality


def attribute(
    runs: Sequence[RunResult],
    contrasts: Sequence[Contrast],
    judgement: Judgement,
) -> tuple[Attribution, ...]:
    """Return the contribution of every plugin that was left out in turn.

    The level is divided by the number of contrasts (Bonferroni).
    """
    level = LEVEL / max(1, len(contrasts))
    return tuple(_row(contrast, runs, judgement, level) for contrast in contrasts)


def _row(
    contrast: Contrast, runs: Sequence[RunResult], judgement: Judgement, level: float
) -> Attribution:
    name, pairs = contrast.plugin, pairs_of(runs, contrast.without)
    with_plugin = [pair.with_ for pair in pairs if name in pair.with_.effects]
    reason = next(
        (run.effects[name].detail for run in with_plugin if not run.effects[name].applied), None
    )
    run_ids = tuple(dict.fromkeys(run_id for pair in pairs for run_id in pair.run_ids))
    row = Attribution(plugin=name, run_ids=run_ids, statement="")

    def not_isolated(why: str) -> Attribution:
        return attrs.evolve(row, statement=f"{name}: not isolated: {why}")

    if reason is not None:
        return attrs.evolve(row, statement=f"{name}: not applied: {reason}")
    moved = moved_along(pairs, contrast.group)
    if moved is not None:
        return not_isolated(f"taking it out changes whether {moved} is applied")
    if len(pairs) < MINIMUM_PAIRS:
        return not_isolated(f"{len(pairs)} complete contrasts without it")
    interval = interval_of(pairs, judgement, level)
    if isinstance(interval, str):
        return not_isolated(interval)
    left, low, high = speedup_interval(interval)
    statement = _statement(contrast, pairs, interval, judgement)
    return attrs.evolve(row, left_out=left, low=low, high=high, statement=statement)


def moved_along(pairs: Sequence[Pair], group: Sequence[str]) -> str | None:
    """Return another plugin that takes effect on one side of a pair only; None if there is none.
    The two stacks then differ in more than the plugin that was left out."""
    for pair in pairs:
        for other, effect in pair.without.effects.items():
            if other not in group and effect.applied != pair.with_.effects[other].applied:
                return f'"{other}"'
    return None


def _statement(
    contrast: Contrast, pairs: Sequence[Pair], interval: Interval, judgement: Judgement
) -> str:
    name = contrast.plugin
    others = [plugin for plugin in contrast.group if plugin != name]
    if others:
        name += f" (with {' and '.join(others)}, which cannot stand without it)"
    figures = interval_in_words(interval)
    to_target = judgement.kind is ComparisonKind.TIME_TO_TARGET
    unlike = None if to_target else unlike_amounts(pairs)
    if unlike is not None:
        return f"{name}: trains another amount, {unlike}; {figures}"
    _, low, high = speedup_interval(interval)
    shown = verdict_on_interval(low, high)
    if shown is Verdict.SLOWER:
        return f"{name}: slower with it, {figures}; remove it"
    if shown is Verdict.FASTER:
        invalid = not_finite([run for pair in pairs for run in (pair.without, pair.with_)])
        if invalid is not None:
            return f"{name}: no gain is claimed, {invalid}; {figures}"
        return f"{name}: faster with it, {figures}"
    return f"{name}: no effect on the time could be shown, {figures}"


def interval_of(
    pairs: Sequence[Pair], judgement: Judgement, level: float = LEVEL
) -> Interval | str:
    """Return the interval of the log speedup, or why there is none."""
    figures = compared_seconds(pairs, judgement.kind)
    if isinstance(figures, str):
        return figures
    interval = t_interval(log_ratios(*figures), level)
    if identical_timings(pairs, figures, interval):
        return "suspiciously identical timings"
    return interval


WORDS = {
    Verdict.FASTER: "faster with it",
    Verdict.SLOWER: "slower with it",
    Verdict.NO_DIFFERENCE: "no measurable difference",
}


def judge_addition(
    runs: Sequence[RunResult],
    judgement: Judgement,
    *,
    variant: str,
    additions: tuple[str, ...],
    resolved: Mapping[str, Mapping[str, Any]],
    equivalence: Equivalence,
    certificate: Certificate | None,
) -> Addition:
    """Judge the stack with additions against the full stack and return the contrast.

    Its pairs are of the same groups as those of the verdict, and its interval has the same level:
    it is a question of its own, and nothing that is said of the stack depends on it.

    :param judgement: the rules for the stack.
    :param variant: the name of its runs.
    :param additions: the plugins that the full stack lacks, or has with other settings.
    :param resolved: the settings of all its plugins.
    :param equivalence: what it does to the mathematics.
    :param certificate: what a replay of it against the baseline showed.
    """
    judgement = attrs.evolve(judgement, equivalence=equivalence, certificate=certificate)
    pairs = pairs_of(runs, FULL, variant)
    over_baseline = pairs_of(runs, BASELINE, variant)
    draft = Addition(
        plugins=additions,
        resolved=resolved,
        equivalence=equivalence,
        variant=variant,
        verdict=Verdict.NONE,
        pairs=len(pairs),
        run_ids=tuple(run_id for pair in pairs for run_id in pair.run_ids),
        quality=compare_quality(over_baseline, judgement),
        statement="",
    )
    name = " and ".join(additions)

    def concluded(verdict: Verdict, text: str) -> Addition:
        return attrs.evolve(draft, verdict=verdict, statement=f"{name}: {text}")

    reason = _not_applied(pairs, additions)
    if reason is not None:
        return concluded(Verdict.NOT_APPLIED, reason)
    failed = [run for run in runs if run.variant == variant and run.status == "failed"]
    if len(pairs) < MINIMUM_PAIRS:
        because = f": {len(failed)} of its runs failed" if failed else ""
        return concluded(
            Verdict.NONE, f"not isolated by {len(pairs)} complete pairs, it takes "
            f"{MINIMUM_PAIRS}{because}",
        )  # fmt: skip
    moved = moved_along(pairs, additions)
    if moved is not None:
        why = f"not isolated: adding it changes whether {moved} is applied"
        return concluded(Verdict.NONE, why)
    interval = interval_of(pairs, judgement)
    if isinstance(interval, str):
        return concluded(Verdict.NONE, f"not isolated: {interval}")
    speedup, low, high = speedup_interval(interval)
    total, total_low, total_high = _total(over_baseline, judgement)
    draft = attrs.evolve(
        draft, speedup=speedup, low=low, high=high, confidence=interval.confidence,
        total=total, total_low=total_low, total_high=total_high,
    )  # fmt: skip
    doubt = _doubt(pairs, len(failed))
    if doubt is not None:
        figures = interval_in_words(interval)
        return concluded(Verdict.NONE, f"no gain is claimed, {doubt}; {figures}")
    verdict = verdict_on_interval(low, high)
    return concluded(verdict, _in_words(verdict, interval, judgement) + _total_in_words(draft))


def _not_applied(pairs: Sequence[Pair], additions: Sequence[str]) -> str | None:
    """Return which addition took no effect in some run, and why; None if all did in all."""
    for pair in pairs:
        for name in additions:
            effect = pair.with_.effects.get(name)
            if effect is not None and not effect.applied:
                named = "" if len(additions) == 1 else f'"{name}" '
                return f"{named}not applied: {effect.detail}"
    return None


def _doubt(pairs: Sequence[Pair], failed: int) -> str | None:
    """Return why no gain may be claimed; None if one may."""
    if failed:
        return f"{failed} of its runs failed"
    invalid = not_finite([run for pair in pairs for run in (pair.without, pair.with_)])
    return invalid or unlike_amounts(pairs)


def _in_words(verdict: Verdict, interval: Interval, judgement: Judgement) -> str:
    if verdict is Verdict.INCONCLUSIVE:
        return inconclusive(interval)
    figures = interval_in_words(interval)
    return f"{WORDS[verdict]} on top of the stack{judgement.kind.qualifier}: {figures}"


def _total(
    pairs: Sequence[Pair], judgement: Judgement
) -> tuple[float, float, float] | tuple[None, None, None]:
    """Return the speedup over the baseline, with its interval; None where there is none."""
    if len(pairs) < MINIMUM_PAIRS:
        return None, None, None
    interval = interval_of(pairs, judgement)
    return (None, None, None) if isinstance(interval, str) else speedup_interval(interval)


def _total_in_words(addition: Addition) -> str:
    if addition.total is None or addition.total_low is None or addition.total_high is None:
        return ""
    figures = f"{addition.total:.2f}x ({addition.total_low:.2f} to {addition.total_high:.2f})"
    return f"; {figures} over the baseline"
