"""Advise what to try next; plugins are named only as the recipe names them."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.records.results import Attribution, Comparison, RunResult
from tfopt_core.statistics.wording import seconds_in_words

# What isolating each plugin shows, by the verdict on the stack.
ISOLATE = {
    "faster": "see which plugin earns it",
    "steps faster": "see which plugin earns it",
    "quality open": "see which plugin earns it",
    "worse": "see which plugin earns it",
    "slower": "see which plugin harms",
    "steps slower": "see which plugin harms",
    "no difference": "see whether one plugin harms what another gains",
}


def next_steps(
    runs: Sequence[RunResult],
    comparison: Comparison,
    attribution: Sequence[Attribution],
    pairs_asked: int | None,
    isolating_seconds: float | None = None,
) -> tuple[str, ...]:
    """Return short imperative sentences, the most useful first.

    :param isolating_seconds: about how long isolating each plugin would take, None if that was
        done or is unknown.
    """
    steps = []
    effects = next((run.effects for run in runs if run.ok and run.effects), {})
    for name, effect in effects.items():
        if not effect.applied:
            steps.append(f'take "{name}" out of the recipe: it was not applied ({effect.detail})')
    for row in attribution:
        if row.high is not None and row.high < 1:
            steps.append(f'remove "{row.plugin}": the stack is faster without it')
    if not attribution and len(effects) > 1 and comparison.verdict in ISOLATE:
        steps.append(
            f"{ISOLATE[comparison.verdict]}: --set measure.attribution=leave-one-out "
            f"({_about(isolating_seconds)}{len(effects) + 2} runs a round)"
        )
    quality = comparison.quality
    match comparison.verdict:
        case "quality open" if comparison.kind in ("steady", "steps"):
            steps.append(
                "settle the quality with whole trainings: --set measure.length=full, and a "
                "--budget that holds four pairs of them"
            )
        case "quality open" if quality is not None:
            more = 12 if (pairs_asked or 0) < 12 else 2 * (pairs_asked or 12)
            steps.append(
                f"settle the quality: more pairs (--pairs {more}), or a tolerance that matters "
                f"to you (now {quality.tolerance:.4g})"
            )
        case "worse":
            steps.append("take out the plugins that change the arithmetic, one at a time")
        case "inconclusive" | "disturbed":
            steps.append("measure on an idle machine, or train longer per run")
        case "unlike":
            steps.append(
                "have both sides train alike: take out what stops early or leaves examples out, or "
                "judge by [measure.target]"
            )
        case "no difference" | "slower" | "steps slower":
            steps.append("try other plugins: `tfopt plugins` says what each is for")
    steps_made = max((run.fit.steps for run in runs if run.ok), default=0)
    repaid_at = comparison.break_even_step
    if repaid_at and repaid_at > steps_made and comparison.kind == "end-to-end":
        steps.append(f"train longer: the start costs more and is repaid after step {repaid_at:,}")
    return tuple(steps)


def _about(seconds: float | None) -> str:
    return "" if seconds is None else f"about {seconds_in_words(seconds)}, "
