"""Leave callbacks that only write files to the chief."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks import Cluster


def callbacks_of(callbacks: Sequence[Any], cluster: Cluster | None) -> list[Any]:
    """Return the callbacks that this process calls.

    Keras' own callbacks that only write are left to the chief, since several processes writing one
    file damage it. Callbacks that act on the training are called in every process.

    :raises WorkloadError: for BackupAndRestore, which both writes and acts on the training.
    """
    import keras

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
