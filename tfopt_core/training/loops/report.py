"""`Loop`, which training loop is asked for; and which one ran and why, by its own count."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import attrs

_BY_MODEL: WeakKeyDictionary[Any, LoopReport] = WeakKeyDictionary()


@attrs.define(kw_only=True)
class LoopReport:
    """Which loop trained a model, and how many steps and calls it made.

    :param kind: "keras", "chunked" or "resident".
    :param why_not: why Keras' own loop trained in place of the stack's; empty if it did not.
    :param steps_per_call: the most steps of a call.
    :param calls: how many calls were made.
    :param steps: how many steps they made in all.
    :param last_call: how many steps the last call made.
    :param compiled_steps: how many steps were made by calls that XLA compiled whole.
    :param why_not_whole: why XLA compiled only single steps; empty if it did not.
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
        """Add a call of `steps` steps, `compiled` of which were compiled whole."""
        self.last_call = steps
        self.calls += steps > 0
        self.steps += steps
        self.compiled_steps += compiled


def loop_report(model: Any) -> LoopReport:
    """Return which loop trained this model, for `report_effect`.

    A model that tfopt did not train has Keras' own loop and no steps.
    """
    return attrs.evolve(_BY_MODEL.get(model) or LoopReport())


def continued(model: Any, report: LoopReport) -> LoopReport:
    """Return the report to count in: the existing one, if a like loop has trained the model."""
    before = _BY_MODEL.get(model)
    if before is not None and (before.kind, before.steps_per_call) == (
        report.kind,
        report.steps_per_call,
    ):
        before.why_not = report.why_not
        return before
    note_loop(model, report)
    return report


def note_loop(model: Any, report: LoopReport) -> None:
    """Set the report that counts the model's training from now on."""
    _BY_MODEL[model] = report


@attrs.frozen
class Loop:
    """One training loop: how many steps a call makes, and whether and how XLA compiles them.

    `kind` is "keras" (stock: XLA compiles single steps), "chunked" (XLA compiles the call whole)
    or "resident" (likewise, over data that the device holds).
    """

    steps: int
    jit_compile: bool
    kind: str = "keras"

    @property
    def compiles_whole(self) -> bool:
        """Whether XLA compiles a call as one function, rather than each step."""
        return self.jit_compile and self.kind != "keras"
