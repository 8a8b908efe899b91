"""Checks of the options that a recipe gives to a workload; each names option and value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfopt_core import WorkloadError
from tfopt_core.toolkit import did_you_mean


def whole_number(option: str, value: Any, *, low: int, high: int | None = None) -> int:
    """The value, if it is a whole number from `low` to `high`.

    :raises WorkloadError: otherwise.
    """
    right = isinstance(value, int) and not isinstance(value, bool) and value >= low
    if right and (high is None or value <= high):
        return int(value)
    limits = f"at least {low}" if high is None else f"from {low:,} to {high:,}"
    raise WorkloadError(f'option "{option}" takes a whole number {limits}, got {value!r}')


def number(
    option: str, value: Any, *, low: float | None = None, above: float | None = None,
    below: float | None = None,
) -> float:  # fmt: skip
    """The value, if it is a number of at least `low`, above `above` and below `below`.

    :raises WorkloadError: otherwise.
    """
    limits = (("at least", low), ("above", above), ("below", below))
    right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if right and (
        (low is None or value >= low)
        and (above is None or value > above)
        and (below is None or value < below)
    ):
        return float(value)
    words = " and ".join(f"{name} {limit:g}" for name, limit in limits if limit is not None)
    raise WorkloadError(f'option "{option}" takes a number {words}, got {value!r}')


def one_of(option: str, value: Any, allowed: Sequence[str]) -> str:
    """The value, if it is one of the allowed words.

    :raises WorkloadError: otherwise.
    """
    if isinstance(value, str) and value in allowed:
        return value
    words = ", ".join(f'"{word}"' for word in allowed)
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    raise WorkloadError(
        f'option "{option}" takes one of {words}, got {value!r}' + (f"; {hint}" if hint else "")
    )


def yes_or_no(option: str, value: Any) -> bool:
    """The value, if it is true or false.

    :raises WorkloadError: otherwise.
    """
    if isinstance(value, bool):
        return value
    raise WorkloadError(f'option "{option}" takes true or false, got {value!r}')


def one_number_of(option: str, value: Any, allowed: Sequence[int]) -> int:
    """The value, if it is one of the allowed whole numbers.

    :raises WorkloadError: otherwise.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value in allowed:
        return value
    numbers = ", ".join(map(str, allowed))
    raise WorkloadError(f'option "{option}" takes one of {numbers}, got {value!r}')


def path(option: str, value: Any) -> Path:
    """The value as a path, if it is a text; "~" is the home folder.

    :raises WorkloadError: otherwise.
    """
    if isinstance(value, str) and value:
        return Path(value).expanduser()
    raise WorkloadError(f'option "{option}" takes a path as text, got {value!r}')
