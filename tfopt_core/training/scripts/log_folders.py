"""Move the log folders of TensorBoard callbacks into the private folder of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfopt_core.training.scripts.private_folder import PrivateFolder


def move_log_folders(callbacks: Iterable[Any], private: PrivateFolder) -> None:
    """Have each TensorBoard log at the private folder's path of its `log_dir`.

    TensorFlow's own code writes there, which neither a copied folder nor its watch sees. Callbacks
    that write by Python are left alone: the script may read their files, and such writes are noted.
    """
    import keras

    for callback in callbacks:
        if isinstance(callback, keras.callbacks.TensorBoard):
            callback.log_dir = str(private.path_of(Path(callback.log_dir)))
