"""Helpers for plugins: a validator of settings, and amounts of memory in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def at_least_one_or(word: str) -> Callable[[Any, Any, Any], None]:
    """Return an attrs validator: a whole number of at least 1, or this word."""

    def validate(_: Any, attribute: Any, value: Any) -> None:
        if value != word and (isinstance(value, str) or value < 1):
            raise ValueError(f'{attribute.name} must be at least 1 or "{word}", got {value}')

    return validate


def size_in_words(size: float) -> str:
    """Return bytes as a person reads them: `166 MiB`, `2.5 GiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            figure = size / unit
            return f"{figure:.2g} {name}" if figure < 10 else f"{figure:,.0f} {name}"
    return f"{size:.0f} bytes"
