"""Shuffle and batch arrays by their indices, as Keras' own `fit` does.

Slicing, shuffling and batching examples one by one costs a step more than `model.fit(x, y)`, which
shuffles indices and gathers a whole batch. The order is the same: a shuffle draws positions,
whatever the elements are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.data.stages import Batch, Shuffle, Source, Stage

# The number of stages that are replaced: the arrays, the shuffle, the batch.
STAGES = 3


def can_be(stages: Sequence[Stage]) -> bool:
    """Return whether a pipeline begins with dense arrays that are shuffled and batched."""
    if len(stages) < STAGES:
        return False
    source, shuffle, batch = stages[:STAGES]
    # not padded or ragged batches: their examples differ in shape
    if not isinstance(source, Source) or source.origin != "arrays":
        return False
    return isinstance(shuffle, Shuffle) and type(batch) is Batch and _are_dense(source.value)


def batches(stages: Sequence[Stage], *, static: bool = True) -> Any:
    """Return a `tf.data.Dataset` of these arrays' batches.

    :param static: whether the size of a batch stands in its shapes if no example is left over.
    """
    import tensorflow as tf

    source, shuffle, batch = stages[:STAGES]
    assert isinstance(source, Source)
    assert isinstance(batch, Batch)
    with tf.device("CPU:0"):
        arrays = tf.nest.map_structure(tf.convert_to_tensor, source.value)
    indices = shuffle.lower(tf.data.Dataset.range(source.count))
    indices = (batch.with_static_size(indices) if static else batch).lower(indices)

    # converting it would take a tenth of a second of each start
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def gather(chosen: Any) -> Any:
        return tf.nest.map_structure(lambda array: tf.gather(array, chosen), arrays)

    return indices.map(gather)


def _are_dense(value: Any) -> bool:
    import numpy as np
    import tensorflow as tf

    return all(isinstance(leaf, np.ndarray | tf.Tensor) for leaf in tf.nest.flatten(value))
