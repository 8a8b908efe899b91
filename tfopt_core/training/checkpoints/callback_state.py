"""Capture and restore the states of Keras' own callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# The attributes that change during a training, by class.
_KNOWN: dict[str, tuple[str, ...]] = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch"),
    "ReduceLROnPlateau": ("wait", "cooldown_counter", "best"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
}
# Callbacks without a state, or with one that may begin anew.
_STATELESS = (
    "BackupAndRestore", "History", "LearningRateScheduler", "ProgbarLogger", "RemoteMonitor",
    "TensorBoard", "TerminateOnNaN",
)  # fmt: skip


def capture_callbacks(
    callbacks: Sequence[Any],
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return the states of the callbacks in order, {} for unknown classes, and their arrays."""
    states, arrays = [], {}
    for index, callback in enumerate(callbacks):
        names = _names(callback)
        states.append({name: _plain(getattr(callback, name, None)) for name in names})
        weights = getattr(callback, "best_weights", None) if names else None
        if weights is not None:
            states[-1]["best_weights"] = len(weights)
            for place, weight in enumerate(weights):
                array = np.asarray(weight)
                bits = array.dtype.kind not in "biufc"
                arrays[f"callback {index}/{place}"] = array.view(np.uint16) if bits else array
    return states, arrays


def restore_callbacks(
    callbacks: Sequence[Any],
    model: Any,
    states: Sequence[dict[str, Any]],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Restore the states, after all callbacks have begun the training."""
    for index, (callback, state) in enumerate(zip(callbacks, states, strict=True)):
        for name, value in state.items():
            if name != "best_weights":
                setattr(callback, name, value)
                continue
            weights = [arrays[f"callback {index}/{place}"] for place in range(value)]
            types = [np.asarray(weight).dtype for weight in model.get_weights()]
            callback.best_weights = [
                array if array.dtype == dtype else array.view(dtype)
                for array, dtype in zip(weights, types, strict=True)
            ]


def unknown_callbacks(callbacks: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes of callbacks of which it is unknown whether they have a state."""
    import keras

    stateless = tuple(getattr(keras.callbacks, name) for name in _STATELESS)
    return tuple(
        dict.fromkeys(
            type(callback).__name__
            for callback in callbacks
            if not _names(callback)
            and not isinstance(callback, stateless)
            and not getattr(callback, "keeps_no_state", False)
        )
    )


def _names(callback: Any) -> tuple[str, ...]:
    import keras

    for name, attributes in _KNOWN.items():
        if isinstance(callback, getattr(keras.callbacks, name)):
            return attributes
    return ()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return np.asarray(value).item()
