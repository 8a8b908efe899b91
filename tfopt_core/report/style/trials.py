"""Trials of a search in words, and the colors of their outcomes."""

from __future__ import annotations

from tfopt_core.records.tuning import StackTrial, TrialOutcome
from tfopt_core.report.style import units

# Every outcome has a color; a test checks it.
OUTCOME_COLORS = {
    TrialOutcome.IN: "green", TrialOutcome.STAYS: "green", TrialOutcome.NO_GAIN: "",
    TrialOutcome.WORSE: "", TrialOutcome.DROPPED: "", TrialOutcome.NOT_APPLIED: "yellow",
    TrialOutcome.REFUSED: "yellow", TrialOutcome.FAILED: "red", TrialOutcome.OUT_OF_MEMORY: "red",
}  # fmt: skip


def trial_in_words(trial: StackTrial) -> str:
    """Return a trial as one line: what was tried on what, the figures, the outcome."""
    verb = "without" if trial.action == "drop" else "with"
    others = [one.name for one in trial.stack if one.name != trial.plugin]
    on = f" beside {', '.join(others)}" if others else ""
    place = f" in place of {', '.join(trial.replaces)}" if trial.replaces else ""
    figures = f" {figures_in_words(trial)}," if trial.ratio is not None else ""
    kept = f" (kept from {trial.kept_from})" if trial.kept_from else ""
    outcome = f"{trial.outcome}"
    if not trial.outcome.measured:
        outcome += f": {trial.reason}"
    return f"{verb} {trial.plugin}{on}{place}:{figures} {outcome}{kept}"


def figures_in_words(trial: StackTrial) -> str:
    """Return `1.25x (80% interval 1.20 to 1.31, 2 pairs)`, or what is known of it; "" for none."""
    if trial.ratio is None:
        return ""
    if trial.low is None or trial.high is None or trial.confidence is None:
        return f"{units.ratio_text(trial.ratio)} (1 pair)"
    ends = " to ".join(units.ratio_text(end).removesuffix("x") for end in (trial.low, trial.high))
    return (
        f"{units.ratio_text(trial.ratio)} ({trial.confidence:.0%} interval {ends}, "
        f"{trial.pairs} pairs)"
    )


def short_figures(trial: StackTrial) -> str:
    """Return `1.25x (1.20 to 1.31), 2 pairs`, for a table; "" for none."""
    if trial.ratio is None:
        return ""
    if trial.low is None or trial.high is None:
        return f"{units.ratio_text(trial.ratio)}, 1 pair"
    figures = units.ratio_with_interval(trial.ratio, trial.low, trial.high)
    return f"{figures}, {trial.pairs} pairs"
