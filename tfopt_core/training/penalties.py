"""Add the metric `data_loss`, the loss without penalties: a penalty alone moves `val_loss`."""

from __future__ import annotations

from typing import Any, Literal

from tfopt_core.private_api import why_without
from tfopt_core.records.data_loss import NAME
from tfopt_core.training.layers import nested_layers

Penalties = Literal["none", "tracked", "unknown"]


def add_data_loss(model: Any, element_spec: Any) -> Penalties:
    """Have the model report `data_loss`, its loss less all regularization terms.

    Without penalties the loss already is the data loss, and nothing is added. Otherwise
    `compute_loss` also tracks the difference.

    :param element_spec: the `tf.TypeSpec` structure of a batch, None where unknown; a model that
        builds itself when it is called, or has layers of its own, is called once on zeros.
    :returns: "none" if there are certainly no penalties, "tracked" if the metric was added,
        "unknown" if the model could not be called: then no data loss is reported.
    """
    import keras
    import tensorflow as tf

    penalized = _has_penalties(model, element_spec)
    if penalized is None:
        return "unknown"
    if not penalized:
        return "none"
    original = model.compute_loss
    tracker = keras.metrics.Mean(name=NAME)
    model.tfopt_data_loss = tracker  # Keras resets and reports the metrics among its attributes

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        total = original(*args, **kwargs)
        # Keras divides a loss by the number of replicas, since it adds their gradients; a metric
        # is the mean over the replicas
        whole = total * tf.distribute.get_strategy().num_replicas_in_sync
        data_loss = whole - sum(keras.ops.sum(penalty) for penalty in model.losses)
        tracker.update_state(data_loss, sample_weight=_examples(args, kwargs))
        return total

    model.compute_loss = compute_loss
    return "tracked"


def remove_data_loss(model: Any) -> None:
    """Undo `add_data_loss`, so that the metric is not saved with the model."""
    tracker = vars(model).get("tfopt_data_loss")
    if tracker is not None:
        delattr(model, "tfopt_data_loss")
        # Keras keeps metrics that were attributes in a list of its own
        model._metrics[:] = [metric for metric in model._metrics if metric is not tracker]
    if "compute_loss" in vars(model):
        delattr(model, "compute_loss")
        # the traced functions still call it
        model.train_function = model.test_function = None


def with_data_loss(logs: dict[str, float], penalties: Penalties) -> dict[str, float]:
    """Return the epoch's metrics with `data_loss` and `val_data_loss`. They are the losses if there
    are certainly no penalties, and are left out otherwise."""
    filled = dict(logs)
    if penalties == "none":
        for prefix in ("", "val_"):
            if f"{prefix}loss" in logs:
                filled.setdefault(f"{prefix}{NAME}", logs[f"{prefix}loss"])
    return filled


def _has_penalties(model: Any, element_spec: Any) -> bool | None:
    if why_without("data-loss"):
        return None
    if model.built and model.losses:
        return True
    lists_layers = model.built and not why_without("nested-layers")
    if lists_layers and all(_stock_without_penalty(layer) for layer in _layers(model)):
        return False
    if element_spec is None:
        return None
    inputs = element_spec[0] if isinstance(element_spec, tuple) else element_spec
    try:
        model(zeros_of(inputs), training=False)
    except Exception:
        # a model that is trained by a train_step of its own may have no call at all
        return None
    return bool(model.losses)


def _examples(args: Any, kwargs: Any) -> Any:
    """Return how many examples a loss is the mean of: Keras weighs its own loss by them too."""
    import tensorflow as tf

    given = [part for part in tf.nest.flatten([args, kwargs]) if hasattr(part, "shape")]
    ranked = [part for part in given if part.shape.rank is None or part.shape.rank > 0]
    return tf.shape(ranked[0])[0] if ranked else None


def _layers(model: Any) -> list[Any]:
    return [model, *nested_layers(model)]


def _stock_without_penalty(layer: Any) -> bool:
    """Return whether the layer surely adds no loss. Keras' own layers add losses for their
    regularizers only; others may call `add_loss`."""
    if getattr(layer, "activity_regularizer", None) is not None:
        return False
    return type(layer).__module__.startswith("keras.")


def zeros_of(spec: Any) -> Any:
    """Return one example of zeros of this `tf.TypeSpec` structure, with None for an optional."""
    import tensorflow as tf

    def zeros(part: Any) -> Any:
        if not isinstance(part, tf.TensorSpec):
            return None if isinstance(part, tf.OptionalSpec) else part
        return tf.zeros([size or 1 for size in part.shape], part.dtype)

    return tf.nest.map_structure(zeros, spec)
