"""Make Keras callbacks of objects, and find those that act on batches, or write files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.context import Cluster
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def batch_callbacks(callbacks: Sequence[Any]) -> tuple[str, ...]:
    """Return the class names of the callbacks that act on the batches of a training."""
    return tuple(type(one).__name__ for one in callbacks if _acts_on_batches(one))


def _acts_on_batches(callback: Any) -> bool:
    methods = (getattr(getattr(callback, name, None), "__func__", None) for name in BATCH_METHODS)
    base = [getattr(keras.callbacks.Callback, name) for name in BATCH_METHODS]
    own = [method for method in methods if method not in base]
    if any(getattr(method, "__module__", "").partition(".")[0] != "keras" for method in own):
        return True
    return bool(own) and not _waits_for_epochs(callback)


def _waits_for_epochs(callback: Any) -> bool:
    """Return whether one of Keras' own callbacks does nothing in its methods of batches."""
    if not isinstance(callback, keras.callbacks.TensorBoard):
        return getattr(callback, "save_freq", None) == "epoch"  # a checkpoint
    if callback.update_freq != "epoch" or callback.write_steps_per_second:
        return False
    # where the script has made a writer the default, it writes each batch's losses there
    writes = bool(tf.summary.should_record_summaries())
    return not writes and not why_without("tensorboard") and not callback._should_trace


def keras_callback(hooks: Any) -> Any:
    """Return a Keras callback that calls the methods of an object that are named as Keras' are."""
    names = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]
    return keras.callbacks.LambdaCallback(
        **{name: getattr(hooks, name) for name in names if hasattr(hooks, name)}
    )


def unset_initial_epoch(model: Any, callbacks: Sequence[Any]) -> None:
    """Have the next call of `fit` begin with the epoch that it is given.

    Keras' BackupAndRestore sets another one, which was that of the first call.

    :raises WorkloadError: if there is such a callback and Keras does not let its epoch be unset.
    """
    missing = why_without("fit-resumed")
    if not missing:
        model._initial_epoch = None
    elif any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in callbacks):
        raise WorkloadError(missing)


def callbacks_of(callbacks: Sequence[Any], cluster: Cluster | None) -> list[Any]:
    """Return the callbacks that this process calls.

    Keras' own callbacks that only write are left to the chief, since several processes writing one
    file damage it. Callbacks that act on the training are called in every process.

    :raises WorkloadError: for BackupAndRestore, which both writes and acts on the training.
    """
    if cluster is None:
        return list(callbacks)
    if any(isinstance(c, keras.callbacks.BackupAndRestore) for c in callbacks):
        raise WorkloadError(
            "the callback BackupAndRestore writes from every worker into one folder; leave it out "
            "and train with `tfopt train --resume`"
        )
    if cluster.is_chief:
        return list(callbacks)
    writers = (
        keras.callbacks.ModelCheckpoint,
        keras.callbacks.CSVLogger,
        keras.callbacks.TensorBoard,
    )
    return [callback for callback in callbacks if not isinstance(callback, writers)]
