"""Make Keras callbacks of objects, restart `fit` within a training, find callbacks of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
TEST_METHODS = ("on_test_batch_begin", "on_test_batch_end")


def batch_callbacks(
    callbacks: Sequence[Any], methods: Sequence[str] = BATCH_METHODS
) -> tuple[str, ...]:
    """Return the class names of the callbacks that override one of these batch methods.

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
            for method in methods
        )
    )


def keras_callback(hooks: Any) -> Any:
    """Return a Keras callback that calls the methods of an object that are named as Keras' are."""
    import keras

    names = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]
    return keras.callbacks.LambdaCallback(
        **{name: getattr(hooks, name) for name in names if hasattr(hooks, name)}
    )


def restartable(
    callbacks: Sequence[Any], model: Any, wants_restart: Callable[[], bool], **params: Any
) -> Any:
    """Return a `keras.callbacks.CallbackList` with a history for one or more calls of `fit`.

    The callbacks see one training: `on_train_begin` and `on_train_end` happen once. Its attribute
    `restarts` says after a call whether another one must follow.

    :param wants_restart: asked after each epoch but the last whether `fit` is to start again.
    """
    import keras

    class RestartableCallbacks(keras.callbacks.CallbackList):  # type: ignore[misc]
        def __init__(self) -> None:
            self.restarts = self.begun = False
            super().__init__(list(callbacks), add_history=True, model=model, verbose=0, **params)

        def on_train_begin(self, logs: Any = None) -> None:
            self.restarts = False
            if not self.begun:
                self.begun = True
                super().on_train_begin(logs)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, logs)
            if not model.stop_training and epoch + 1 < self.params["epochs"]:
                self.restarts = model.stop_training = wants_restart()

        def on_train_end(self, logs: Any = None) -> None:
            if not self.restarts:
                super().on_train_end(logs)

    return RestartableCallbacks()


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
