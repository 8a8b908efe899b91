"""Which training loop ran, and why, as counted by the train function itself."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import attrs

_BY_MODEL: WeakKeyDictionary[Any, LoopReport] = WeakKeyDictionary()


@attrs.define(kw_only=True)
class LoopReport:
    """Which loop trained a model, and how many steps and calls it made.

    :param kind: "keras", "chunked" or "resident".
    :param why_not: why Keras' own loop trained in place of the one that was asked for, or "".
    :param steps_per_call: the most steps of a call; `steps` were made in all, in `calls` calls,
        the last of them of `last_call` steps.
    :param compiled_steps: how many of them were made by a call that XLA compiled whole.
    :param why_not_whole: why XLA compiled single steps only, though asked for, or "".
    """

    kind: str = "keras"
    why_not: str = ""
    steps_per_call: int = 1
    calls: int = 0
    steps: int = 0
    last_call: int = 0
    compiled_steps: int = 0
    why_not_whole: str = ""

    def count(self, steps: int, compiled: int) -> None:
        """A call has made so many steps, so many of them compiled whole."""
        self.last_call = steps
        self.calls += steps > 0
        self.steps += steps
        self.compiled_steps += compiled

    @property
    def said(self) -> str:
        """`64 steps a call, compiled whole by XLA: 1,250 steps in 20 calls`."""
        words = f"{self.steps_per_call:,} step{'s' * (self.steps_per_call != 1)} a call"
        if self.compiled_steps:
            words += ", compiled whole by XLA"
        elif self.why_not_whole:
            words += f", XLA compiled single steps only: {self.why_not_whole}"
        calls = f"{self.calls:,} call{'s' * (self.calls != 1)}"
        return f"{words}: {self.steps:,} steps in {calls}"


def loop_report(model: Any) -> LoopReport:
    """Return which loop trained this model, read back from what trained it; for `report_effect`.

    A model that tfopt did not train has Keras' own loop and no steps.
    """
    return attrs.evolve(_BY_MODEL.get(model) or LoopReport())


def continued(model: Any, made: LoopReport) -> LoopReport:
    """Return the report to count in: the one so far, if a like loop has trained the model."""
    before = _BY_MODEL.get(model)
    if before is not None and (before.kind, before.steps_per_call) == (
        made.kind,
        made.steps_per_call,
    ):
        return before
    note_loop(model, made)
    return made


def note_loop(model: Any, made: LoopReport) -> None:
    """From now on this counts what trains the model."""
    _BY_MODEL[model] = made
