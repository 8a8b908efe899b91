"""Advise what to try next; plugins are named only as the recipe names them."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import Addition, Attribution, Comparison, RunResult
from tfopt_core.records.variants import FULL
from tfopt_core.records.verdict import MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.statistics.intervals import seconds_in_words

# What isolating each plugin shows, by the verdict on the stack.
ISOLATE = {
    Verdict.FASTER: "see which plugin earns it",
    Verdict.STEPS_FASTER: "see which plugin earns it",
    Verdict.QUALITY_OPEN: "see which plugin earns it",
    Verdict.WORSE: "see which plugin earns it",
    Verdict.SLOWER: "see which plugin harms",
    Verdict.STEPS_SLOWER: "see which plugin harms",
    Verdict.NO_DIFFERENCE: "see whether one plugin harms what another gains",
}


def next_steps(
    runs: Sequence[RunResult],
    comparison: Comparison,
    attribution: Sequence[Attribution],
    pairs: int,
    isolating_seconds: float | None = None,
    *,
    addition: Addition | None = None,
) -> tuple[str, ...]:
    """Return short imperative sentences, the most useful first.

    :param pairs: the number of pairs that was planned.
    :param isolating_seconds: about how long isolating each plugin would take, None if that was
        done or is unknown.
    :param addition: the second contrast, None if there is none.
    """
    steps = []
    stack = [run for run in runs if run.ok and run.variant == FULL]
    effects = next((run.effects for run in stack if run.effects), {})
    for row in attribution:
        if row.high is not None and row.high < 1:
            steps.append(f'remove "{row.plugin}": the stack is faster without it')
    if not attribution and len(effects) > 1 and comparison.verdict in ISOLATE:
        steps.append(
            f"{ISOLATE[comparison.verdict]}: --set measure.attribution=leave-one-out "
            f"({_about(isolating_seconds)}{len(effects) + 2} runs a group)"
        )
    if addition is not None and addition.verdict is Verdict.FASTER:
        steps += _adding(addition)
    quality, memory = comparison.quality, comparison.headline_memory
    # the words of both vocabularies that mean the same are the same
    judged: str = comparison.verdict if memory is None else memory.verdict
    match judged:
        case Verdict.QUALITY_OPEN if comparison.kind.of_cut_runs:
            steps.append("settle the quality with whole trainings: --full")
        case Verdict.QUALITY_OPEN if quality is not None and not quality.metric:
            steps.append(
                "compare the models of both sides by what the script prints: tfopt sees no metric "
                "that it can judge by"
            )
        case Verdict.QUALITY_OPEN if quality is not None:
            steps.append(
                f"settle the quality: more pairs (--pairs {max(12, 2 * pairs)}), or a tolerance "
                f"that matters to you (now {quality.tolerance:.4g})"
            )
        case Verdict.FITS:
            steps.append("to compare times, measure at a batch size that fits both")
        case Verdict.DOES_NOT_FIT:
            steps.append("measure at a smaller batch size, or take out what holds data in memory")
        case Verdict.WORSE:
            steps.append("take out the plugins that change the arithmetic, one at a time")
        case Verdict.INCONCLUSIVE:
            steps.append("measure more pairs (--pairs), or each for longer (--seconds)")
        case Verdict.UNLIKE:
            steps.append(
                "have both sides train alike: take out what stops early or leaves examples out, or "
                "judge by [measure.target]"
            )
        case Verdict.NO_DIFFERENCE | Verdict.SLOWER | Verdict.STEPS_SLOWER | MemoryVerdict.HEAVIER:
            steps.append("try other plugins: `tfopt plugins` says what each is for")
    for name, effect in effects.items():
        if not effect.applied:
            steps.append(f'take "{name}" out of the recipe: it was not applied ({effect.detail})')
    return tuple(steps)


def _adding(addition: Addition) -> list[str]:
    """Return how to train with what is faster on top of the stack, unless its model is worse."""
    good = None if addition.quality is None else addition.quality.verdict
    if good is QualityVerdict.WORSE:
        return []
    step = f"to train with {' and '.join(addition.plugins)} too, take the # off in the recipe"
    if good in (QualityVerdict.NOT_WORSE, QualityVerdict.CERTIFIED):
        return [step]
    return [f"{step}; whether the model stays as good was not established"]


def _about(seconds: float | None) -> str:
    return "" if seconds is None else f"about {seconds_in_words(seconds)}, "
