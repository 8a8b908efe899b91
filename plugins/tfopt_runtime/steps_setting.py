"""The settings that the loops share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def at_least_one_or(word: str) -> Callable[[Any, Any, Any], None]:
    """A validator: a whole number of at least 1, or this word."""

    def validate(_: Any, __: Any, value: Any) -> None:
        if value != word and (isinstance(value, str) or value < 1):
            raise ValueError(f'steps must be at least 1 or "{word}", got {value}')

    return validate


XLA_VALUES = (True, False, "auto")
