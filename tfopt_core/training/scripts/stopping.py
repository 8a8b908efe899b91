"""A callback that stops a fit after some batches."""

from __future__ import annotations

from typing import Any


def stopping_after(batches: int) -> Any:
    """Return a Keras callback that stops a fit after this many batches."""
    import keras

    class Stopping(keras.callbacks.Callback):  # type: ignore[misc]
        seen = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen += 1
            if self.seen >= batches:
                self.model.stop_training = True

    return Stopping()
