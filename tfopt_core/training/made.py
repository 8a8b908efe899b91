"""What became of a loop that a stack asked for: read back from what trained."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import attrs

_INSTALLED: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_REFUSED: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@attrs.frozen(kw_only=True)
class LoopMade:
    """The loop that trained a model, counted while it did.

    :param kind: "keras", "chunked" or "resident".
    :param why_not: why Keras' own loop trained in place of the one that was asked for, or "".
    :param steps_per_call: the most steps of a call; `steps` were made in all, in `calls` calls.
    :param compiled_whole: whether XLA compiled calls whole.
    :param why_not_whole: why XLA compiled single steps only, though asked for, or "".
    """

    kind: str = "keras"
    why_not: str = ""
    steps_per_call: int = 1
    calls: int = 0
    steps: int = 0
    compiled_whole: bool = False
    why_not_whole: str = ""

    @property
    def said(self) -> str:
        """`64 steps a call, compiled whole by XLA: 1,250 steps in 20 calls`."""
        most = min(self.steps_per_call, self.steps)
        words = f"{most:,} step{'s' * (most != 1)} a call"
        if self.compiled_whole:
            words += ", compiled whole by XLA"
        elif self.why_not_whole:
            words += f", XLA compiled single steps only: {self.why_not_whole}"
        calls = f"{self.calls:,} call{'s' * (self.calls != 1)}"
        return f"{words}: {self.steps:,} steps in {calls}"


def loop_made(model: Any) -> LoopMade:
    """Which loop trained this model, read back from the train function itself.

    For `report_effect`. A model that tfopt did not train has Keras' own loop and no steps.
    """
    function = _INSTALLED.get(model)
    if function is None:
        return LoopMade(why_not=_REFUSED.get(model, ""))
    return LoopMade(
        kind=function.kind,
        steps_per_call=function.steps,
        calls=function.calls,
        steps=function.steps_in_all,
        compiled_whole=function.compiled_whole,
        why_not_whole=function.why_not_whole,
    )


def note_installed(model: Any, function: Any) -> None:
    """From now on this function trains the model; counts go on where there was one before."""
    before = _INSTALLED.get(model)
    if before is not None and before is not function:
        function.calls += before.calls
        function.steps_in_all += before.steps_in_all
        function.whole_steps += before.whole_steps
    _INSTALLED[model] = function
    _REFUSED.pop(model, None)


def note_refused(model: Any, why_not: str) -> None:
    """Keras' own loop trains the model, though another one was asked for."""
    _REFUSED[model] = why_not
