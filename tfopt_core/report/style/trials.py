"""Trials of a search in words, and the colors of their outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tfopt_core.report.style import units
from tfopt_core.tuning.results import SettingsTrial, StackTrial, TrialOutcome

OUTCOME_COLORS = {
    **dict.fromkeys(TrialOutcome, ""), TrialOutcome.IN: "green", TrialOutcome.STAYS: "green",
    TrialOutcome.NOT_APPLIED: "yellow", TrialOutcome.REFUSED: "yellow",
    TrialOutcome.FAILED: "red", TrialOutcome.OUT_OF_MEMORY: "red",
}  # fmt: skip


def trial_in_words(trial: StackTrial) -> str:
    """Return a trial as one line: what was tried on what, the figures, the outcome."""
    verb = "without" if trial.action == "drop" else "with"
    others = [one.name for one in trial.stack if one.name not in trial.plugins]
    on = f" beside {', '.join(others)}" if others else ""
    place = f" in place of {', '.join(trial.replaces)}" if trial.replaces else ""
    figures = f" {figures_in_words(trial)}," if trial.ratio is not None else ""
    kept = f" (kept from {trial.kept_from})" if trial.kept_from else ""
    outcome = outcome_in_words(trial)
    return f"{verb} {' + '.join(trial.plugins)}{on}{place}:{figures} {outcome}{kept}"


def outcome_in_words(trial: StackTrial) -> str:
    """Return the outcome, with the reason where that is no figure."""
    if trial.outcome.measured and trial.ratio is not None:
        return str(trial.outcome)
    return f"{trial.outcome}: {trial.reason}"


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
    """Return `1.25x (1.20 to 1.31)` and, in a second line, `2 pairs`, for a table; "" for none."""
    if trial.ratio is None:
        return ""
    if trial.low is None or trial.high is None:
        return f"{units.ratio_text(trial.ratio)}, 1 pair"
    figures = units.ratio_with_interval(trial.ratio, trial.low, trial.high)
    return f"{figures}\n{trial.pairs} pairs"


def settings_figure(trial: SettingsTrial) -> str:
    """Return `1.25x`, or the metric of quality, of one pair or training; "" for none."""
    if trial.figure is None:
        return ""
    if trial.quality is not None:
        return f"{trial.quality:.4g}"
    return units.ratio_text(trial.figure)


def values_in_words(values: Mapping[str, Any]) -> str:
    """Return `learning_rate 0.001, l2.strength 1e-05`; "untuned" for none."""
    words = (
        f"{key.removeprefix('options.').removeprefix('plugins.')} {value_in_words(value)}"
        for key, value in values.items()
    )
    return ", ".join(words) or "untuned"


def value_in_words(value: Any) -> str:
    """Return a value of TOML, a number to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)
