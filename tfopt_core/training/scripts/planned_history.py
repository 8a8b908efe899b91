"""The history of a fit that was cut short, as long as the script has planned it.

A script that plots its metrics over the epochs that it has asked for, or goes on from
`history.epoch[-1]`, works with a cut fit as with a whole one.
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
    """Lengthen the history of a fit that tfopt has cut short. Return by how many epochs.

    The last value of each metric is repeated. A fit that trained to its end, or was ended by a
    callback, keeps its history.

    :param history: the `keras.callbacks.History` that the call has returned.
    :param stopped: whether the fit was ended before the epochs that it was to train.
    :param validate: makes one validation, for a fit that was cut before its first one; returns the
        metrics, None where there are no data to validate on again.
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
    """Whether the fit has trained all that a limit on its epochs or steps has left of it."""
    return call.cut is not None and last + 1 >= call.last_epoch
