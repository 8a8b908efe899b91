"""Judge what each plugin contributes to a stack, and what plugins that are not exact add to it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.claims import (
    compare_quality,
    identical_timings,
    inconclusive,
    not_finite,
    unlike_amounts,
)
from tfopt_core.statistics.figures import Judgement, compared_seconds, verdict_on_interval
from tfopt_core.statistics.intervals import (
    LEVEL,
    MINIMUM_PAIRS,
    Interval,
    interval_in_words,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.results import Addition, Attribution, ComparisonKind, Verdict
from tfopt_core.statistics.runs import BASELINE, FULL, Pair, RunResult, pairs_of, runs_of

WORDS = {
    Verdict.FASTER: "faster with it",
    Verdict.SLOWER: "slower with it",
    Verdict.NO_DIFFERENCE: "no measurable difference",
}


@attrs.frozen
class Contrast:
    """The full stack against the variant without one plugin and those that require it.

    `group` holds all of them, and `without` is the name of that variant.
    """

    plugin: str
    group: tuple[str, ...]
    without: str


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
    run_ids = tuple(dict.fromkeys(run.id for run in runs_of(pairs)))
    row = Attribution(plugin=name, run_ids=run_ids, statement="")
    if (reason := _not_applied(pairs, (name,))) is not None:
        return attrs.evolve(row, statement=f"{name}: {reason}")
    interval = _isolated(pairs, contrast.group, judgement, "taking it out", level)
    if isinstance(interval, str):
        return attrs.evolve(row, statement=f"{name}: not isolated: {interval}")
    left, low, high = speedup_interval(interval)
    statement = _statement(contrast, pairs, interval, judgement)
    return attrs.evolve(row, left_out=left, low=low, high=high, statement=statement)


def _isolated(
    pairs: Sequence[Pair],
    group: Sequence[str],
    judgement: Judgement,
    act: str,
    level: float = LEVEL,
) -> Interval | str:
    """Return the interval of the log speedup of pairs that differ by these plugins, or why there is
    none.

    :param act: what makes the difference, such as "taking it out".
    """
    for pair in pairs:
        for other, effect in pair.without.effects.items():
            if other not in group and effect.applied != pair.with_.effects[other].applied:
                return f'{act} changes whether "{other}" is applied'
    if len(pairs) < MINIMUM_PAIRS:
        return f"{len(pairs)} complete pairs, it takes {MINIMUM_PAIRS}"
    figures = compared_seconds(pairs, judgement.kind)
    if isinstance(figures, str):
        return figures
    interval = t_interval(log_ratios(*figures), level)
    if identical_timings(pairs, figures, interval):
        return "suspiciously identical timings"
    return interval


def _statement(
    contrast: Contrast, pairs: Sequence[Pair], interval: Interval, judgement: Judgement
) -> str:
    name = contrast.plugin
    others = [plugin for plugin in contrast.group if plugin != name]
    if others:
        name += f" (with {' and '.join(others)}, which cannot stand without it)"
    figures = interval_in_words(interval)
    unlike = None if judgement.kind is ComparisonKind.TIME_TO_TARGET else unlike_amounts(pairs)
    if unlike is not None:
        return f"{name}: trains another amount, {unlike}; {figures}"
    _, low, high = speedup_interval(interval)
    shown = verdict_on_interval(low, high)
    if shown is Verdict.SLOWER:
        return f"{name}: slower with it, {figures}; remove it"
    if shown is Verdict.FASTER:
        invalid = not_finite(runs_of(pairs))
        if invalid is not None:
            return f"{name}: no gain is claimed, {invalid}; {figures}"
        return f"{name}: faster with it, {figures}"
    return f"{name}: no effect on the time could be shown, {figures}"


def judge_addition(
    runs: Sequence[RunResult],
    judgement: Judgement,
    added: Addition,
    certificate: Certificate | None,
) -> Addition:
    """Judge the stack with additions against the full stack and return the contrast.

    Its pairs are of the same groups as those of the verdict, and its interval has the same level:
    it is a question of its own, and nothing that is said of the stack depends on it.

    :param judgement: the rules for the stack.
    :param added: the contrast before it is judged.
    :param certificate: what a replay of it showed; None without one.
    """
    judgement = attrs.evolve(judgement, equivalence=added.equivalence, certificate=certificate)
    pairs, over_baseline = (pairs_of(runs, side, added.variant) for side in (FULL, BASELINE))
    draft = attrs.evolve(
        added, pairs=len(pairs), run_ids=tuple(run.id for run in runs_of(pairs)),
        quality=compare_quality(over_baseline, judgement),
    )  # fmt: skip

    def concluded(verdict: Verdict, text: str) -> Addition:
        name = " and ".join(added.plugins)
        return attrs.evolve(draft, verdict=verdict, statement=f"{name}: {text}")

    reason = _not_applied(pairs, added.plugins)
    if reason is not None:
        return concluded(Verdict.NOT_APPLIED, reason)
    failed = sum(run.variant == added.variant and run.status == "failed" for run in runs)
    doubt = f"{failed} of its runs failed" if failed else None
    interval = _isolated(pairs, added.plugins, judgement, "adding it")
    if isinstance(interval, str):
        return concluded(
            Verdict.NONE, "; ".join(filter(None, (f"not isolated: {interval}", doubt)))
        )
    speedup, low, high = speedup_interval(interval)
    draft = attrs.evolve(draft, speedup=speedup, low=low, high=high, confidence=interval.confidence)
    over, whole = "", _isolated(over_baseline, (), judgement, "")
    if isinstance(whole, Interval):
        total, least, most = speedup_interval(whole)
        draft = attrs.evolve(draft, total=total, total_low=least, total_high=most)
        over = f"; {total:.2f}x ({least:.2f} to {most:.2f}) over the baseline"
    figures = interval_in_words(interval)
    doubt = doubt or not_finite(runs_of(pairs)) or unlike_amounts(pairs)
    if doubt is not None:
        return concluded(Verdict.NONE, f"no gain is claimed, {doubt}; {figures}")
    verdict = verdict_on_interval(low, high)
    if verdict is Verdict.INCONCLUSIVE:
        return concluded(verdict, inconclusive(interval) + over)
    words = f"{WORDS[verdict]} on top of the stack"
    if all(name in pair.without.effects for pair in pairs for name in added.plugins):
        words = f"{WORDS[verdict].removesuffix(' with it')} with its settings that are not exact"
    return concluded(verdict, f"{words}{judgement.kind.qualifier}: {figures}{over}")


def _not_applied(pairs: Sequence[Pair], additions: Sequence[str]) -> str | None:
    """Return which addition took no effect in some run, and why; None if all did in all."""
    for pair in pairs:
        for name in additions:
            effect = pair.with_.effects.get(name)
            if effect is not None and not effect.applied:
                named = "" if len(additions) == 1 else f'"{name}" '
                return f"{named}not applied: {effect.detail}"
    return None
