"""The loss without its penalties: a penalty alone moves `val_loss`, so it compares nothing."""

from __future__ import annotations

from typing import Any

NAME = "data_loss"


def add_data_loss(model: Any) -> bool:
    """Have the model report `data_loss`, its loss less all regularization terms.

    Without penalties the loss is the data loss already, nothing is added and no step pays for
    it. Otherwise `compute_loss` also tracks the difference.

    :returns: whether a metric was added.
    """
    import keras
    import tensorflow as tf

    if not model.built or not model.losses:
        return False
    original = model.compute_loss
    tracker = keras.metrics.Mean(name=NAME)
    model.tfopt_data_loss = tracker  # Keras resets and reports the metrics among its attributes

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        total = original(*args, **kwargs)
        # Keras divides a loss by the replicas, whose gradients it adds; a metric is their mean
        whole = total * tf.distribute.get_strategy().num_replicas_in_sync
        tracker.update_state(whole - sum(keras.ops.sum(penalty) for penalty in model.losses))
        return total

    model.compute_loss = compute_loss
    return True


def remove_data_loss(model: Any) -> None:
    """Undo `add_data_loss`, so that a saved model knows nothing of it."""
    for name in ("tfopt_data_loss", "compute_loss"):
        if name in vars(model):
            delattr(model, name)


def with_data_loss(logs: dict[str, float]) -> dict[str, float]:
    """The epoch's metrics with `data_loss` and `val_data_loss`, equal to the losses if absent."""
    filled = dict(logs)
    for prefix in ("", "val_"):
        if f"{prefix}loss" in logs:
            filled.setdefault(f"{prefix}{NAME}", logs[f"{prefix}loss"])
    return filled
