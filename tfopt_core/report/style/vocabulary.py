"""Verdicts, variants, settings and findings in words, and the colors of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.statistics.results import MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.statistics.runs import FULL, PLUS

# What is in none of these is yellow: nothing was shown, or something was not possible.
_COLORS: dict[str, tuple[StrEnum, ...]] = {
    "green": (
        Verdict.FASTER, Verdict.STEPS_FASTER, Verdict.FITS, MemoryVerdict.LIGHTER,
    ),
    "red": (
        Verdict.SLOWER, Verdict.STEPS_SLOWER, Verdict.WORSE, Verdict.DOES_NOT_FIT,
        MemoryVerdict.HEAVIER, MemoryVerdict.WORSE, QualityVerdict.WORSE,
    ),
    "": (QualityVerdict.CERTIFIED, QualityVerdict.NOT_WORSE),
}  # fmt: skip
# What stands beside an exact stack, by what it does to the training.
ADDITION_TITLES = {
    "rounding": "With other rounding",
    "unknown": "With what is not declared exact",
    "changes": "With another training",
}


def color_of(outcome: StrEnum) -> str:
    """Return the color of a verdict; "" for none."""
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
    return variant


def setting_in_words(value: Any) -> str:
    """Return a setting's value as in a recipe, without the quotes of a single string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {setting_in_words(item)}" for key, item in value.items())
        return "{" + inner + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(setting_in_words, value)) + "]"
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


def finding_in_words(finding: Finding) -> str:
    """Return what was found, where, and what to do, in one or more lines."""
    where = [_place_in_words(finding.place)] if finding.place else []
    where += [f"{finding.split} data"] if finding.split else []
    kind = finding.kind.replace("-", " ")
    head = f"{kind}: {finding.detail}" + (f" ({', '.join(where)})" if where else "")
    return f"{head}\n-> {finding.mend}" if finding.mend else head


def _place_in_words(place: str) -> str:
    """Return `file.py:12`, relative to the working directory if the file is below it."""
    file, colon, line = place.rpartition(":")
    base = Path.cwd()
    inside = Path(file).is_absolute() and Path(file).is_relative_to(base)
    return f"{Path(file).relative_to(base) if inside else file}{colon}{line}"
