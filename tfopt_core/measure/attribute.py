"""What each plugin contributes: contrasts that differ by it alone (MEASUREMENT.md, section 8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.measure.figures import compared_seconds
from tfopt_core.measure.judgement import Judgement
from tfopt_core.measure.pairs import Pair, pairs_of
from tfopt_core.measure.schedule import Contrast
from tfopt_core.measure.statistics import (
    MINIMUM_PAIRS,
    Interval,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.measure.suspicion import identical_timings
from tfopt_core.measure.verdict import interval_in_words
from tfopt_core.store.results import Attribution, RunResult


def attribute(
    runs: Sequence[RunResult],
    plugins: Sequence[str],
    left_out: Sequence[Contrast],
    alone: Sequence[Contrast],
    judgement: Judgement,
) -> tuple[Attribution, ...]:
    """The contribution of every plugin for which a contrast was run.

    The level is divided by the number of contrasts (Bonferroni). With both contrasts the credit
    is half their sum in log time, which equals the Shapley value where interactions are pairwise
    at most; with one it is that one.
    """
    level = judgement.level / max(1, len(left_out))
    rows = []
    for name in plugins:
        without = next((c for c in left_out if c.plugin == name), None)
        single = next((c for c in alone if c.plugin == name), None)
        rows.append(_row(name, runs, without, single, judgement, level))
    return tuple(row for row in rows if row is not None)


def unattributed(
    runs: Sequence[RunResult], rows: Sequence[Attribution], judgement: Judgement
) -> float | None:
    """The part of the whole speedup that no plugin's credit explains, as a factor.

    None unless every plugin has a credit; shares are never forced to add up.
    """
    pairs = pairs_of(runs)
    if len(pairs) < MINIMUM_PAIRS or not rows or any(row.credit is None for row in rows):
        return None
    whole = _interval(pairs, judgement, judgement.level)
    if isinstance(whole, str):
        return None
    return math.exp(
        whole.mean - sum(math.log(row.credit) for row in rows if row.credit is not None)
    )


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

    def row(statement: str, *figures: float | None) -> Attribution:
        left, lone, credit, low, high = figures or (None,) * 5
        return Attribution(
            plugin=name, left_out=left, alone=lone, credit=credit, low=low, high=high,
            run_ids=run_ids, statement=statement,
        )  # fmt: skip

    if reason is not None:
        return row(f"{name}: not applied: {reason}")
    moved = _moved_along(removed, without.group if without else ())
    if moved is not None:
        return row(f"{name}: not isolated: taking it out changes whether {moved} is applied")
    if without is None or len(removed) < MINIMUM_PAIRS:
        return row(f"{name}: not isolated: {len(removed)} complete contrasts without it")
    interval = _interval(removed, judgement, level)
    if isinstance(interval, str):
        return row(f"{name}: not isolated: {interval}")
    left, low, high = speedup_interval(interval)
    logs = [interval.mean]
    lone = None
    single_interval = _interval(added, judgement, level) if len(added) >= MINIMUM_PAIRS else ""
    if not isinstance(single_interval, str):
        logs.append(single_interval.mean)
        lone = math.exp(single_interval.mean)
    credit = math.exp(math.fsum(logs) / len(logs))
    return row(_statement(without, interval, low, high), left, lone, credit, low, high)


def _moved_along(pairs: Sequence[Pair], group: Sequence[str]) -> str | None:
    """Another plugin that takes effect on one side of a pair only; then the difference of the
    two stacks is more than the plugin that was taken out."""
    for pair in pairs:
        for other, effect in pair.without.effects.items():
            if other not in group and effect.applied != pair.with_.effects[other].applied:
                return f'"{other}"'
    return None


def _statement(contrast: Contrast, interval: Interval, low: float, high: float) -> str:
    name = contrast.plugin
    others = [plugin for plugin in contrast.group if plugin != name]
    if others:
        name += f" (with {' and '.join(others)}, which cannot stand without it)"
    figures = interval_in_words(interval)
    if low > 1:
        return f"{name}: faster with it, {figures}"
    if high < 1:
        return f"{name}: slower with it, {figures}; remove it"
    return f"{name}: no effect on the time could be shown, {figures}"


def _interval(pairs: Sequence[Pair], judgement: Judgement, level: float) -> Interval | str:
    """The interval of the log speedup, or why there is none."""
    figures = compared_seconds(pairs, judgement)
    if isinstance(figures, str):
        return figures
    interval = t_interval(log_ratios(*figures), level)
    if identical_timings(pairs, figures, interval):
        return "suspiciously identical timings"
    return interval
