"""Attribute the gain to plugins (docs/guide/measuring.md, "Attribution")."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.records.results import Attribution, RunResult
from tfopt_core.records.variants import Contrast
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.intervals import (
    LEVEL,
    MINIMUM_PAIRS,
    Interval,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import Judgement, verdict_on_interval
from tfopt_core.statistics.pairs import Pair, pairs_of
from tfopt_core.statistics.verdicts.amounts import not_finite, unlike_amounts
from tfopt_core.statistics.verdicts.claims import identical_timings
from tfopt_core.statistics.wording import interval_in_words


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
