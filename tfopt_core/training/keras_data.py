"""Hand data to Keras' `fit` that take the place of other data."""

from __future__ import annotations

from typing import Any

from tfopt_core.data.stages import before_copy


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
