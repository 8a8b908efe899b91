"""Extend the history of a fit that was cut short to the length that the script planned.

A script that plots its metrics over the planned epochs, or continues after `history.epoch[-1]`,
then works as after a whole fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfopt_core.training.scripts.call import FitCall


def lengthen(
    history: Any,
    call: FitCall,
    *,
    stopped: bool,
    validate: Callable[[], Mapping[str, float] | None] = lambda: None,
) -> int:
    """Extend the history of a fit that tfopt has cut short. Return the number of epochs added.

    The last value of each metric is repeated. A fit that trained to its end, or was ended by a
    callback, keeps its history.

    :param history: the `keras.callbacks.History` that the call has returned.
    :param stopped: whether the fit was stopped before its last epoch.
    :param validate: makes one validation, for a fit that was cut before its first one. Returns the
        metrics; None if the data cannot be read again.
    """
    epochs = getattr(history, "epoch", None)
    if not epochs or not (stopped or _limited(call, epochs[-1])):
        return 0
    planned = int(call.arguments["epochs"])
    missing = range(epochs[-1] + 1, planned)
    validations = sum(call.validates_after(epoch) for epoch in missing)
    for name, values in history.history.items():
        values.extend(values[-1:] * (validations if name.startswith("val_") else len(missing)))
    if validations and not any(name.startswith("val_") for name in history.history):
        for name, value in (validate() or {}).items():
            history.history[f"val_{name}"] = [value] * validations
    epochs.extend(missing)
    # not in place: Keras hands all callbacks the same dictionary
    history.params = {**history.params, "epochs": planned}
    if call.cut is not None and call.cut.planned_steps is not None:
        history.params["steps"] = call.cut.planned_steps
    return len(missing)


def _limited(call: FitCall, last: int) -> bool:
    """Return whether the fit trained as far as a limit on its epochs or steps allows."""
    return call.cut is not None and last + 1 >= call.last_epoch
