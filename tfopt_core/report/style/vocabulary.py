"""Words for verdicts, variants, settings and mathematics, in everything that is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfopt_core.records.variants import BASELINE, FULL

# Short names of verdicts, for tables.
VERDICTS = {
    "faster": "faster",
    "slower": "slower",
    "steps faster": "steps faster, no total",
    "steps slower": "steps slower, no total",
    "unlike": "unlike trainings",
    "no difference": "no measurable difference",
    "disturbed": "machine disturbed",
    "worse": "faster but worse",
    "quality open": "faster, quality not established",
    "inconclusive": "inconclusive",
    "not applied": "not applied",
    "void": "void",
    "suspicious": "suspiciously identical timings",
    "none": "no verdict",
}

# Any other verdict is yellow.
VERDICT_COLORS = {
    "faster": "green",
    "steps faster": "green",
    "slower": "red",
    "steps slower": "red",
    "worse": "red",
}


def verdict_color(verdict: str) -> str:
    """Return the color that a verdict is printed in."""
    return VERDICT_COLORS.get(verdict, "yellow")


def verdict_in_words(verdict: str) -> str:
    """Return the short name of a verdict; that of a later version unchanged."""
    return VERDICTS.get(verdict, verdict)


def variant_in_words(variant: str) -> str:
    """Return `baseline`, `with the stack`, `without cache` or `cache alone`."""
    if variant == FULL:
        return "with the stack"
    if variant.startswith("alone "):
        return f"{variant.removeprefix('alone ')} alone"
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
    return ", ".join(
        f"{key} = {setting_in_words(value)}"
        for key, value in settings.items()
        if value is not None and value not in ("", [], (), {})
    )
