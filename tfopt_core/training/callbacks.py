"""Make Keras callbacks of objects, and find callbacks that act on batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def batch_callbacks(callbacks: Sequence[Any]) -> tuple[str, ...]:
    """Return the class names of the callbacks that override a method of the training's batches.

    Checkpoints that are saved by epochs override these methods too, but do nothing there.
    """
    import keras

    return tuple(
        type(callback).__name__
        for callback in callbacks
        if getattr(callback, "save_freq", None) != "epoch"
        and any(
            getattr(getattr(callback, method, None), "__func__", None)
            is not getattr(keras.callbacks.Callback, method)
            for method in BATCH_METHODS
        )
    )


def keras_callback(hooks: Any) -> Any:
    """Return a Keras callback that calls the methods of an object that are named as Keras' are."""
    import keras

    names = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]
    return keras.callbacks.LambdaCallback(
        **{name: getattr(hooks, name) for name in names if hasattr(hooks, name)}
    )


def unset_initial_epoch(model: Any, callbacks: Sequence[Any]) -> None:
    """Have the next call of `fit` begin with the epoch that it is given.

    Keras' BackupAndRestore sets another one, which was that of the first call.

    :raises WorkloadError: if there is such a callback and Keras does not let its epoch be unset.
    """
    import keras

    missing = why_without("fit-resumed")
    if not missing:
        model._initial_epoch = None
    elif any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in callbacks):
        raise WorkloadError(missing)
