"""Judge what plugins that are not exact add to an exact stack: a second contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.hooks.card import Equivalence
from tfopt_core.records.results import Addition, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import Verdict
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, Interval, speedup_interval
from tfopt_core.statistics.judgement import Judgement, verdict_on_interval
from tfopt_core.statistics.pairs import Pair, pairs_of
from tfopt_core.statistics.verdicts.amounts import not_finite, unlike_amounts
from tfopt_core.statistics.verdicts.attribution import interval_of, moved_along
from tfopt_core.statistics.verdicts.claims import inconclusive
from tfopt_core.statistics.verdicts.quality import compare_quality
from tfopt_core.statistics.wording import interval_in_words

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
