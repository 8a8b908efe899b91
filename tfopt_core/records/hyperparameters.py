"""A hyperparameter that a model declares for a search, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

# The hyperparameters that must have one of some values: each of them.
Conditions = tuple[tuple[str, tuple[Any, ...]], ...]


@attrs.frozen(kw_only=True)
class Hyperparameter:
    """An option of a workload that its model declares itself.

    :param range: as `[tune.options]` writes it, an array or a table; None if it has one value.
    :param untuned: its value without a search.
    :param when: where it is active: under any of these conditions; always if there are none.
    """

    name: str
    range: Any
    untuned: Any
    when: tuple[Conditions, ...] = ()


def is_active(when: tuple[Conditions, ...], values: Mapping[str, Any]) -> bool:
    """Return whether a hyperparameter is active beside these values of the active ones."""
    return not when or any(
        all(name in values and values[name] in allowed for name, allowed in conditions)
        for conditions in when
    )
