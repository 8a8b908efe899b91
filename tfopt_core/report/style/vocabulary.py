"""Verdicts, variants, settings and trials in words, and the colors of outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from tfopt_core.records.variants import BASELINE, FULL, PLUS
from tfopt_core.records.verdict import MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.report.style import units
from tfopt_core.tuning.results import SettingsTrial, StackTrial, TrialOutcome

# What is in none of these is yellow: nothing was shown, or something was not possible.
_COLORS: dict[str, tuple[StrEnum, ...]] = {
    "green": (
        Verdict.FASTER, Verdict.STEPS_FASTER, Verdict.FITS, MemoryVerdict.LIGHTER,
        TrialOutcome.IN, TrialOutcome.STAYS,
    ),
    "red": (
        Verdict.SLOWER, Verdict.STEPS_SLOWER, Verdict.WORSE, Verdict.DOES_NOT_FIT,
        MemoryVerdict.HEAVIER, MemoryVerdict.WORSE, QualityVerdict.WORSE,
        TrialOutcome.FAILED, TrialOutcome.OUT_OF_MEMORY,
    ),
    "": (
        QualityVerdict.CERTIFIED, QualityVerdict.NOT_WORSE,
        TrialOutcome.NO_GAIN, TrialOutcome.WORSE, TrialOutcome.DROPPED,
        TrialOutcome.MEASURED, TrialOutcome.PRUNED, TrialOutcome.MISSED,
    ),
}  # fmt: skip
# What stands beside an exact stack, by what it does to the mathematics.
ADDITION_TITLES = {
    "rounding": "With other rounding",
    "unknown": "With what is not declared exact",
    "changes": "With another training",
}


def color_of(outcome: StrEnum) -> str:
    """Return the color of a verdict, or of what became of a trial; "" for none."""
    # members of two enumerations with one word are equal
    found = (color for color, members in _COLORS.items() if any(one is outcome for one in members))
    return next(found, "yellow")


def variant_in_words(variant: str) -> str:
    """Return `baseline`, `with the stack`, `without cache`, or `with the stack and xla` for what is
    measured on top of it."""
    if variant == FULL:
        return "with the stack"
    if variant.startswith(PLUS):
        return f"with the stack and {variant.removeprefix(PLUS)}"
    return BASELINE if variant == BASELINE else variant


def setting_in_words(value: Any) -> str:
    """Return a setting's value as in a recipe, without the quotes of a single string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {setting_in_words(item)}" for key, item in value.items())
        return "{" + inner + "}"
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return "[" + ", ".join(setting_in_words(item) for item in items) + "]"
    return '""' if value == "" else str(value)


def settings_in_words(settings: Mapping[str, Any]) -> str:
    """Return `policy = mixed_bfloat16, keep = [softmax]`, without unset or empty settings."""
    return ", ".join(each_setting_in_words(settings))


def each_setting_in_words(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `policy = mixed_bfloat16` and so on, without unset or empty settings."""
    return tuple(
        f"{key} = {setting_in_words(value)}"
        for key, value in settings.items()
        if value is not None and value not in ("", [], (), {})
    )


def trial_in_words(trial: StackTrial) -> str:
    """Return a trial as one line: what was tried on what, the figures, the outcome."""
    verb = "without" if trial.action == "drop" else "with"
    others = others_of(trial)
    on = f" beside {', '.join(others)}" if others else ""
    place = f" in place of {', '.join(trial.replaces)}" if trial.replaces else ""
    kept = f" (kept from {trial.kept_from})" if trial.kept_from else ""
    figures = ""
    if trial.ratio is not None:
        known = "1 pair"
        if trial.low is not None and trial.high is not None and trial.confidence is not None:
            ends = (units.ratio_text(end).removesuffix("x") for end in (trial.low, trial.high))
            known = f"{trial.confidence:.0%} interval {' to '.join(ends)}, {trial.pairs} pairs"
        figures = f" {units.ratio_text(trial.ratio)} ({known}),"
    return (
        f"{verb} {' + '.join(trial.plugins)}{on}{place}:{figures} {outcome_in_words(trial)}{kept}"
    )


def others_of(trial: StackTrial) -> list[str]:
    """Return the plugins of a trial's stack besides those that it is about."""
    return [one.name for one in trial.stack if one.name not in trial.plugins]


def outcome_in_words(trial: StackTrial) -> str:
    """Return the outcome, with the reason where that is no figure."""
    if trial.outcome.measured and trial.ratio is not None:
        return str(trial.outcome)
    return f"{trial.outcome}: {trial.reason}"


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
