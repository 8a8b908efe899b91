"""Keep a diagnosis away from the files that Keras' own callbacks write in a training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.training.build import Built


def with_files_in(built: Built, folder: Path) -> Built:
    """Return the training with copies of Keras' writing callbacks, which write into `folder`.

    The callbacks of a training that is diagnosed begin epochs and make steps, for which a
    `CSVLogger` empties its log and a `ModelCheckpoint` of every N steps saves.
    """
    callbacks = tuple(
        _elsewhere(callback, folder / str(number))
        for number, callback in enumerate(built.training.callbacks)
    )
    return attrs.evolve(built, training=attrs.evolve(built.training, callbacks=callbacks))


def writes_elsewhere(callback: Any) -> bool:
    """Return whether the callback is one of those that `with_files_in` copies."""
    return _writer(callback) is not None


def _elsewhere(callback: Any, folder: Path) -> Any:
    writer = _writer(callback)
    if writer is None:
        return callback
    folder.mkdir(parents=True, exist_ok=True)
    return writer(callback, folder)


def _writer(callback: Any) -> Callable[[Any, Path], Any] | None:
    """Return what makes a copy of this callback that writes into a folder, if it writes."""
    import keras

    writers = {
        keras.callbacks.ModelCheckpoint: _with("filepath"),
        keras.callbacks.CSVLogger: _with("filename"),
        keras.callbacks.TensorBoard: _with("log_dir"),
        keras.callbacks.BackupAndRestore: _backup,
    }
    return next((make for kind, make in writers.items() if isinstance(callback, kind)), None)


def _with(attribute: str) -> Callable[[Any, Path], Any]:
    def make(callback: Any, folder: Path) -> Any:
        other = copy.copy(callback)
        setattr(other, attribute, str(folder / Path(getattr(callback, attribute)).name))
        return other

    return make


def _backup(callback: Any, folder: Path) -> Any:
    # its paths are computed when it is made
    import keras

    return keras.callbacks.BackupAndRestore(
        str(folder),
        save_freq=callback.save_freq,
        double_checkpoint=callback.double_checkpoint,
        delete_checkpoint=callback.delete_checkpoint,
    )
