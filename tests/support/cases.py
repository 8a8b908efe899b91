"""Parameters of a test of which only some run in `make test`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def mostly_thorough(
    values: Iterable[Any], kept: Collection[Any], ids: Callable[[Any], str] = str
) -> list[Any]:
    """Return every value as a parameter, marked `thorough` but for those that are kept."""
    return [
        pytest.param(value, marks=() if value in kept else pytest.mark.thorough, id=ids(value))
        for value in values
    ]
