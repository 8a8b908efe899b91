"""Build what Keras builds in a model's first step, so that no step is traced twice."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.model.layers import frozen_share

# Keras' optimizers whose variables begin as constants, whatever the weights are when they are made.
FROM_CONSTANTS = (
    "SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta", "Adafactor",
    "Ftrl", "Lion", "Lamb", "Muon",
)  # fmt: skip
# What a model does in a step in a way of its own where one of these is its own.
STEP_METHODS = ("train_step", "compute_loss", "compute_metrics")


def build_state(built: Built, replaced: Collection[str] = ()) -> None:
    """Build the optimizer and the metrics, which Keras builds while it traces the first step.

    TensorFlow traces a function that has created variables once more, so each step was traced
    twice. Left to Keras are models under a strategy, models that are not built or not traced, those
    whose step, loss, metrics or train function are their own, those with frozen layers, which a
    callback may unfreeze, and all optimizers but those of `FROM_CONSTANTS`: another may begin with
    a copy of the weights, which a callback may load before the first step.

    :param replaced: methods that tfopt, not the user, has set on the model itself.
    """
    model = built.model
    if why_without("own-strategy") or model._distribute_strategy is not None:
        return
    if not _starts_from_constants(model.optimizer) or model.optimizer.built or model.run_eagerly:
        return
    if _steps_its_own_way(model, replaced) or not model.built or frozen_share(model):
        return
    parts = tf.nest.flatten(built.run.element_spec)
    if all(isinstance(part, tf.TensorSpec) for part in parts):
        # Keras then builds them while it traces
        with contextlib.suppress(Exception), built.run.strategy.scope():
            model._symbolic_build(data_batch=built.run.element_spec)


def _starts_from_constants(optimizer: Any) -> bool:
    """Return whether it is one of `FROM_CONSTANTS`, with or without a loss scale."""
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        optimizer = optimizer.inner_optimizer
    known = [getattr(keras.optimizers, name, None) for name in FROM_CONSTANTS]
    return optimizer is not None and type(optimizer) in known


def _steps_its_own_way(model: Any, replaced: Collection[str]) -> bool:
    """Return whether a method that makes its steps is not that of Keras, `replaced` ones aside."""
    if (vars(model).keys() - set(replaced)) & set(STEP_METHODS):
        return True
    return any(
        getattr(type(model), name) is not getattr(keras.Model, name)
        for name in (*STEP_METHODS, "make_train_function")
    )
