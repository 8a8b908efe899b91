"""Hand data to Keras' `fit` that take the place of other data: counted as these, and weighed."""

from __future__ import annotations

from typing import Any

from tfopt_core.data.stages import before_copy
from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without


def counted_as(dataset: Any, batches: int | None) -> Any:
    """Return the data with the number of batches that Keras counts in those that they replace.

    Where Keras does not know the number, it makes a call past the end of each pass, which counts
    as a step of the optimizer. So it must know as much of data that yield the same batches.

    :param dataset: a `tf.data.Dataset`; any other data are returned as they are.
    :param batches: None where Keras does not know the number.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        return dataset
    found = int(dataset.cardinality())
    if batches is not None and found == tf.data.UNKNOWN_CARDINALITY:
        return before_copy(dataset, tf.data.experimental.assert_cardinality(batches))
    if batches is None and found >= 0:
        # another object over the same data, since the plugins read this one back
        dataset = before_copy(dataset, lambda data: data.with_options(tf.data.Options()))
        dataset.cardinality = lambda: tf.constant(tf.data.UNKNOWN_CARDINALITY, tf.int64)
    return dataset


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
