"""Build steps of tf.data that its public interface cannot build."""

from __future__ import annotations

from typing import Any


def shuffled(dataset: Any, buffer_size: int, seeds: tuple[int, int], reshuffle: bool) -> Any:
    """Return the data set shuffled by a pair of seeds of tf.data, so that the orders of all epochs
    are those of the shuffle from which the pair was read.

    `Dataset.shuffle` takes one seed and makes the pair from that and the global seed.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops, shuffle_op

    kind = shuffle_op._ShuffleDataset
    result = kind.__new__(kind)
    result._input_dataset = dataset
    result._buffer_size = tf.constant(buffer_size, tf.int64)
    result._seed, result._seed2 = (tf.constant(seed, tf.int64) for seed in seeds)
    result._reshuffle_each_iteration = reshuffle
    result._name = None
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=dataset._variant_tensor,
        buffer_size=result._buffer_size,
        seed=result._seed,
        seed2=result._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=reshuffle,
        **result._common_args,
    )
    dataset_ops.UnaryUnchangedStructureDataset.__init__(result, dataset, variant)
    return result
