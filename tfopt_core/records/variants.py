"""The variants of a stack that a measurement runs, and the contrasts between them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tfopt_core.hooks.stack import StackedPlugin

BASELINE, FULL = "baseline", "full"
# Begins the name of the full stack with additions.
PLUS = "plus "


@attrs.frozen
class Variant:
    """A stack to train with, under the name that results carry."""

    name: str
    plugins: tuple[StackedPlugin, ...]


def plus(additions: Iterable[str]) -> str:
    """Return the name of the variant that adds these plugins to the full stack."""
    return f"{PLUS}{' and '.join(additions)}"


@attrs.frozen
class Contrast:
    """The full stack against the variant without one plugin and those that require it.

    `group` holds all of them, and `without` is the name of that variant.
    """

    plugin: str
    group: tuple[str, ...]
    without: str


@attrs.frozen
class ScheduledRun:
    """One run of the schedule: its round, its place in it, and its seed."""

    round: int
    position: int
    variant: Variant
    seed: int
