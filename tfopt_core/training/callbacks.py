"""Find the Keras callbacks that act on every batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
TEST_METHODS = ("on_test_batch_begin", "on_test_batch_end")
# Methods that several steps a call skip, those of `evaluate` within `fit` too.
EVERY_BATCH = (*BATCH_METHODS, *TEST_METHODS)


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
