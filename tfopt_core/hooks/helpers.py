"""Helpers for plugins: a number or a word as a setting, memory in words, the user's cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfopt_core.hooks.plugin_class import setting


def number_or(word: str, help: str) -> Any:
    """Return a setting that is a whole number of at least 1, or this word, which is the default."""

    def validate(_: Any, attribute: Any, value: Any) -> None:
        if value != word and (isinstance(value, str) or value < 1):
            raise ValueError(f'{attribute.name} must be at least 1 or "{word}", got {value}')

    return setting(default=word, validator=validate, help=help)


def size_in_words(size: float) -> str:
    """Return bytes as a person reads them: `166 MiB`, `2.5 GiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            figure = size / unit
            return f"{figure:.2g} {name}" if figure < 10 else f"{figure:,.0f} {name}"
    return f"{size:.0f} bytes"


def user_cache_folder(environment: Mapping[str, str]) -> Path:
    """Return tfopt's folder in the user's cache: below XDG_CACHE_HOME, or ~/.cache where that is
    not an absolute path, as the XDG Base Directory Specification has it."""
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "tfopt"
