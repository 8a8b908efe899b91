"""What Keras callbacks need of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
TEST_METHODS = ("on_test_batch_begin", "on_test_batch_end")
# What several steps a call take away: `evaluate` within `fit` counts by as many steps.
EVERY_BATCH = (*BATCH_METHODS, *TEST_METHODS)


def batch_callbacks(
    callbacks: Sequence[Any], methods: Sequence[str] = BATCH_METHODS
) -> tuple[str, ...]:
    """The classes of the Keras callbacks that act on every training batch, by these methods.

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
