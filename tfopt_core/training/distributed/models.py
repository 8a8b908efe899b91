"""Check and build the model and data of a distributed training before its first step."""

from __future__ import annotations

from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.penalties import zeros_of


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


def weighs_gradients(loss: Any) -> bool:
    """Return whether a replica's loss is a mean over its examples, and not a sum.

    :param loss: as `compile` took it.
    :raises WorkloadError: for any other reduction, whose share of a replica is unknown.
    """
    import keras

    losses = [part for part in keras.tree.flatten(loss) if isinstance(part, keras.losses.Loss)]
    reductions = {part.reduction for part in losses}
    if reductions == {"sum"}:
        return False
    strange = reductions - {"mean", "sum_over_batch_size"}
    if strange:
        raise WorkloadError(
            f'a loss has the reduction "{sorted(map(str, strange))[0]}", which cannot be taken '
            'over the parts of several replicas; use "sum_over_batch_size"'
        )
    return True


def build_model(built: Built) -> None:
    """Build the parts of the model, its metrics and its optimizer that are not built yet.

    This happens inside the strategy's scope and before any step, since variables cannot be made
    over replicas later.
    """

    model, spec = built.model, built.run.element_spec
    batch = zeros_of(spec)
    with built.run.strategy.scope():
        model._symbolic_build(data_batch=batch)


def build_before_fit(built: Built) -> None:
    """Build the model, which `fit` would build on a batch under the stack's own strategy.

    To take that batch makes one more iterator, so that a shuffle would draw other seeds.
    """
    import tensorflow as tf

    model, parts = built.model, tf.nest.flatten(built.run.element_spec)
    if why_without("one-device-order") or model._distribute_strategy is not built.run.strategy:
        return
    if all(isinstance(part, tf.TensorSpec) for part in parts):
        build_model(built)
        model._maybe_symbolic_build = lambda *args, **kwargs: None


def with_class_weight(dataset: Any, class_weight: Any) -> Any:
    """Return the data with the weight of each example's class, as Keras' `fit` adds it.

    :raises WorkloadError: if the installed Keras has no function for that.
    """
    missing = why_without("class-weights")
    if missing:
        raise WorkloadError(missing)
    from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

    return dataset.map(make_class_weight_map_fn(dict(class_weight)))
