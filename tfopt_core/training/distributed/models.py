"""Check and build the model and data of a distributed training before its first step."""

from __future__ import annotations

import contextlib
from typing import Any

from tfopt_core.data.stages import before_copy
from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.losses import MEAN
from tfopt_core.training.layers import frozen_share

# Keras' optimizers whose variables begin as constants, whatever the weights are when they are made.
FROM_CONSTANTS = (
    "SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta", "Adafactor",
    "Ftrl", "Lion", "Lamb", "Muon",
)  # fmt: skip
# What a model does in a step in a way of its own where one of these is its own.
STEP_METHODS = ("train_step", "compute_loss", "compute_metrics")


def check_data(built: Built) -> None:
    """Check that every data set can be divided among replicas.

    :raises WorkloadError: for data that are no `tf.data.Dataset`.
    """
    import tensorflow as tf

    for split, data in built.run.datasets.items():
        if not isinstance(data, tf.data.Dataset):
            raise WorkloadError(
                f"the {split} data are a {type(data).__name__}, which no strategy can share out "
                "among replicas; give a tf.data.Dataset or arrays"
            )


def check_losses(loss: Any) -> None:
    """Check that every loss can be taken over the parts of several replicas.

    :param loss: as `compile` took it.
    :raises WorkloadError: for a reduction that is neither a mean over the examples nor a sum.
    """
    import keras

    for part in keras.tree.flatten(loss):
        reduction = getattr(part, "reduction", MEAN)
        if reduction not in ("mean", MEAN, "sum"):
            raise WorkloadError(
                f'a loss has the reduction "{reduction}", which cannot be taken over the parts of '
                f'several replicas; use "{MEAN}"'
            )


def build_model(built: Built) -> None:
    """Build the parts of the model, its metrics and its optimizer that are not built yet.

    This happens inside the strategy's scope and before any step, since variables cannot be made
    over replicas later.
    """

    model, spec = built.model, built.run.element_spec
    batch = _zeros_of(spec)
    with built.run.strategy.scope():
        model._symbolic_build(data_batch=batch)


def build_state(built: Built) -> None:
    """Build the optimizer and the metrics, which Keras builds while it traces the first step.

    TensorFlow traces a function that has created variables once more, so each step was traced
    twice. Left to Keras are models under a strategy, models that are not built or not traced, those
    whose step, loss, metrics or train function are their own, those with frozen layers, which a
    callback may unfreeze, and all optimizers but those of `FROM_CONSTANTS`: another may begin with
    a copy of the weights, which a callback may load before the first step.
    """
    model = built.model
    if why_without("own-strategy") or model._distribute_strategy is not None:
        return
    if not _starts_from_constants(model.optimizer) or model.optimizer.built or model.run_eagerly:
        return
    if _steps_its_own_way(model) or not model.built or frozen_share(model):
        return
    if _has_tensors(built):
        # Keras then builds them while it traces
        with contextlib.suppress(Exception), built.run.strategy.scope():
            model._symbolic_build(data_batch=built.run.element_spec)


def _starts_from_constants(optimizer: Any) -> bool:
    """Return whether it is one of `FROM_CONSTANTS`, with or without a loss scale."""
    import keras

    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        optimizer = optimizer.inner_optimizer
    known = [getattr(keras.optimizers, name, None) for name in FROM_CONSTANTS]
    return optimizer is not None and type(optimizer) in known


def _steps_its_own_way(model: Any) -> bool:
    """Return whether a method that makes its steps is not that of Keras."""
    import keras

    if not vars(model).keys().isdisjoint(STEP_METHODS):
        return True
    return any(
        getattr(type(model), name) is not getattr(keras.Model, name)
        for name in (*STEP_METHODS, "make_train_function")
    )


def _has_tensors(built: Built) -> bool:
    """Return whether the training data are batches of dense tensors."""
    import tensorflow as tf

    parts = tf.nest.flatten(built.run.element_spec)
    return all(isinstance(part, tf.TensorSpec) for part in parts)


def with_class_weight(dataset: Any, class_weight: Any) -> Any:
    """Return the data with the weight of each example's class, as Keras' `fit` adds it.

    :raises WorkloadError: if the installed Keras has no function for that.
    """
    missing = why_without("class-weights")
    if missing:
        raise WorkloadError(missing)
    from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

    weigh = make_class_weight_map_fn(dict(class_weight))
    return before_copy(dataset, lambda data: data.map(weigh))


def weighed(train: Any, class_weight: Any) -> tuple[Any, Any]:
    """Return the training data and the class weights that `fit` is given: none where the data
    hold them already, as those do whose batches Keras would count anew, or which a device holds."""
    if class_weight is None or "cardinality" not in vars(train):
        return train, class_weight
    dataset = with_class_weight(train, class_weight)
    dataset.cardinality = train.cardinality
    return dataset, None


def _zeros_of(spec: Any) -> Any:
    """Return one example of zeros of this `tf.TypeSpec` structure, with None for an optional."""
    import tensorflow as tf

    def zeros(part: Any) -> Any:
        if not isinstance(part, tf.TensorSpec):
            return None if isinstance(part, tf.OptionalSpec) else part
        return tf.zeros([size or 1 for size in part.shape], part.dtype)

    return tf.nest.map_structure(zeros, spec)
