"""Attribute the gain to plugins (docs/guide/measuring.md, "Attribution")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.records.results import Attribution, RunResult
from tfopt_core.records.variants import Contrast
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.disturbance import on_one_side
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    PAIRS_FOR_SMALL_GAINS,
    Interval,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import Judgement, verdict_on_interval
from tfopt_core.statistics.pairs import Pair, pairs_of
from tfopt_core.statistics.verdicts.amounts import not_finite, unlike_amounts
from tfopt_core.statistics.verdicts.suspicion import identical_timings
from tfopt_core.statistics.wording import interval_in_words


def attribute(
    runs: Sequence[RunResult],
    plugins: Sequence[str],
    left_out: Sequence[Contrast],
    alone: Sequence[Contrast],
    judgement: Judgement,
) -> tuple[Attribution, ...]:
    """Return the contribution of every plugin for which a contrast was run.

    The level is divided by the number of contrasts (Bonferroni). With both contrasts the credit is
    half their sum in log time, which equals the Shapley value if interactions are pairwise at most;
    with one contrast the credit is that contrast.
    """
    level = judgement.level / max(1, len(left_out))
    rows = []
    for name in plugins:
        without = next((c for c in left_out if c.plugin == name), None)
        single = next((c for c in alone if c.plugin == name), None)
        rows.append(_row(name, runs, without, single, judgement, level))
    return tuple(row for row in rows if row is not None)


def unattributed(
    runs: Sequence[RunResult],
    rows: Sequence[Attribution],
    left_out: Sequence[Contrast],
    alone: Sequence[Contrast],
    judgement: Judgement,
) -> tuple[float, float, float] | None:
    """Return the part of the whole speedup that no credit explains, as a factor with its interval.

    Per round, it is the whole log ratio less all credits. None unless every plugin has a credit
    from at least four rounds. Shares are never forced to add up.
    """
    if not rows or any(row.credit is None for row in rows):
        return None
    whole = _by_round(pairs_of(runs), judgement)
    credits_ = [_credits(row.plugin, runs, left_out, alone, judgement) for row in rows]
    rounds = [round_ for round_ in whole if all(round_ in of_row for of_row in credits_)]
    if len(rounds) < MINIMUM_PAIRS:
        return None
    rest = [whole[r] - math.fsum(of_row[r] for of_row in credits_) for r in rounds]
    return speedup_interval(t_interval(rest, judgement.level))


def _row(
    name: str,
    runs: Sequence[RunResult],
    without: Contrast | None,
    single: Contrast | None,
    judgement: Judgement,
    level: float,
) -> Attribution | None:
    if without is None and single is None:
        return None
    removed = pairs_of(runs, without.without, without.with_) if without else ()
    added = pairs_of(runs, single.without, single.with_) if single else ()
    with_plugin = [p.with_ for p in (*removed, *added) if name in p.with_.effects]
    reason = next(
        (run.effects[name].detail for run in with_plugin if not run.effects[name].applied), None
    )
    run_ids = tuple(dict.fromkeys(i for pair in (*removed, *added) for i in pair.run_ids))
    row = Attribution(plugin=name, run_ids=run_ids, statement="")

    def not_isolated(why: str) -> Attribution:
        return attrs.evolve(row, statement=f"{name}: not isolated: {why}")

    if reason is not None:
        return attrs.evolve(row, statement=f"{name}: not applied: {reason}")
    moved = moved_along(removed, without.group if without else ())
    if moved is not None:
        return not_isolated(f"taking it out changes whether {moved} is applied")
    if without is None or len(removed) < MINIMUM_PAIRS:
        return not_isolated(f"{len(removed)} complete contrasts without it")
    interval = interval_of(removed, judgement, level)
    if isinstance(interval, str):
        return not_isolated(interval)
    left, low, high = speedup_interval(interval)
    row = attrs.evolve(row, left_out=left, low=low, high=high)
    single_interval = interval_of(added, judgement, level) if len(added) >= MINIMUM_PAIRS else ""
    if not isinstance(single_interval, str):
        lone, low, high = speedup_interval(single_interval)
        row = attrs.evolve(row, alone=lone, alone_low=low, alone_high=high)
    credit = list(_credits_of(removed, added if row.alone else (), judgement).values())
    if len(credit) >= MINIMUM_PAIRS:
        half, low, high = speedup_interval(t_interval(credit, level))
        row = attrs.evolve(row, credit=half, credit_low=low, credit_high=high)
    return attrs.evolve(row, statement=_statement(without, removed, interval, judgement))


def _credits(
    name: str,
    runs: Sequence[RunResult],
    left_out: Sequence[Contrast],
    alone: Sequence[Contrast],
    judgement: Judgement,
) -> dict[int, float]:
    """Return a plugin's credit in log time, by round."""
    removed, added = (
        next((pairs_of(runs, c.without, c.with_) for c in contrasts if c.plugin == name), ())
        for contrasts in (left_out, alone)
    )
    return _credits_of(removed, added, judgement)


def _credits_of(
    removed: Sequence[Pair], added: Sequence[Pair], judgement: Judgement
) -> dict[int, float]:
    """Return the mean of both contrasts, or the only contrast, in log time, by round."""
    when_removed, when_added = _by_round(removed, judgement), _by_round(added, judgement)
    if not added:
        return when_removed
    return {r: (when_removed[r] + when_added[r]) / 2 for r in when_removed if r in when_added}


def _by_round(pairs: Sequence[Pair], judgement: Judgement) -> dict[int, float]:
    """Return the pairs' log ratios by round; empty if there are no seconds to compare."""
    figures = compared_seconds(pairs, judgement) if pairs else ""
    if isinstance(figures, str):
        return {}
    rounds = [pair.with_.round for pair in pairs]
    return dict(zip(rounds, log_ratios(*figures), strict=True))


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
    shown = verdict_on_interval(low, high, interval.count)
    if shown is Verdict.SLOWER:
        return f"{name}: slower with it, {figures}; remove it"
    if shown is Verdict.FASTER:
        invalid = not_finite([run for pair in pairs for run in (pair.without, pair.with_)])
        doubt = invalid or on_one_side(pairs)
        if doubt is not None:
            return f"{name}: no gain is claimed, {doubt}; {figures}"
        return f"{name}: faster with it, {figures}"
    if not low <= 1 <= high:
        return (
            f"{name}: no effect on the time could be shown, so small a difference takes "
            f"{PAIRS_FOR_SMALL_GAINS} pairs; {figures}"
        )
    return f"{name}: no effect on the time could be shown, {figures}"


def interval_of(pairs: Sequence[Pair], judgement: Judgement, level: float) -> Interval | str:
    """Return the interval of the log speedup, or why there is none."""
    figures = compared_seconds(pairs, judgement)
    if isinstance(figures, str):
        return figures
    interval = t_interval(log_ratios(*figures), level)
    if identical_timings(pairs, figures, interval):
        return "suspiciously identical timings"
    return interval
