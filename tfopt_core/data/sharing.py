"""Take a worker's part of a `tf.data.Dataset`."""

from __future__ import annotations

from typing import Any

from tfopt_core.data.stages.sharing import EvenSteps, PartOfBatch, PartOfExamples, PartOfSource
from tfopt_core.errors import WorkloadError


def shared(dataset: Any, stage: PartOfBatch | PartOfExamples | PartOfSource) -> Any:
    """Return the part of the data set for the stage's worker.

    :raises WorkloadError: for batches with a component that has no rows.
    """
    if isinstance(stage, PartOfExamples):
        return _part_of_examples(dataset, stage)
    if stage.index is None:
        return dataset
    if isinstance(stage, PartOfSource):
        return dataset.shard(stage.count, stage.index)
    return _part_of_batches(dataset, stage.count, stage.index)


def evened(dataset: Any, stage: EvenSteps) -> Any:
    """Return exactly as many batches as the stage sets: the rest is cut off, or empty ones are
    added.

    :raises WorkloadError: if no empty batch can be made.
    """
    import tensorflow as tf

    empty = tf.nest.map_structure(_empty, dataset.element_spec)
    filling = tf.data.Dataset.from_tensors(empty).repeat()
    return dataset.concatenate(filling).take(stage.batches)


def _part_of_examples(dataset: Any, stage: PartOfExamples) -> Any:
    """Return the part of the examples, divided as whole batches, which needs no map of examples."""
    import tensorflow as tf

    from tfopt_core.data.dissect import known_cardinality

    elements = known_cardinality(dataset)
    if stage.index is None:
        part = dataset if elements is None else dataset.take(stage.left_of(elements))
    else:
        batches = dataset.batch(stage.of, drop_remainder=stage.drop_remainder)
        part = _part_of_batches(batches, stage.count, stage.index).unbatch()
    if elements is None:
        return part
    return part.apply(tf.data.experimental.assert_cardinality(stage.left_of(elements)))


def _part_of_batches(dataset: Any, count: int, index: int) -> Any:
    import tensorflow as tf

    _check_rows(dataset.element_spec)

    def part_of_batch(*batch: Any) -> Any:
        data = batch if isinstance(dataset.element_spec, tuple) else batch[0]
        return tf.nest.map_structure(lambda part: _rows(part, count, index), data)

    return dataset.map(part_of_batch)


def _rows(part: Any, count: int, index: int) -> Any:
    """Return the worker's rows of one component of a batch."""
    import tensorflow as tf

    if part is None:
        return None
    if isinstance(part, tf.SparseTensor):
        shape = part.dense_shape
        begin, end = shape[0] * index // count, shape[0] * (index + 1) // count
        start = tf.concat([[begin], tf.zeros_like(shape[1:])], 0)
        return tf.sparse.slice(part, start, tf.concat([[end - begin], shape[1:]], 0))
    if isinstance(part, tf.RaggedTensor):
        rows = part.nrows()
        return part[rows * index // count : rows * (index + 1) // count]
    # a Python number if known, so that the part's shape is known too
    rows = part.shape[0] or tf.shape(part)[0]
    return part[rows * index // count : rows * (index + 1) // count]


def _check_rows(spec: Any) -> None:
    import tensorflow as tf

    for leaf in tf.nest.flatten(spec):
        if isinstance(leaf, tf.TensorSpec) and leaf.shape.rank == 0:
            raise WorkloadError(
                f"the batches hold a single {leaf.dtype.name}, which has no rows that workers "
                "could share; give every part of a batch a first axis for its examples"
            )
        if isinstance(leaf, tf.data.DatasetSpec):
            raise WorkloadError(
                "the batches hold data sets, whose rows workers cannot share; give tensors"
            )


def _empty(spec: Any) -> Any:
    """Return a component with no rows. An axis of unknown length gets length 1, since layers need
    some."""
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        raise WorkloadError(
            f"there is no empty batch of a {type(spec).__name__}, which a worker with fewer "
            'batches would need; set shard = "batch"'
        )
    return tf.zeros([0, *(size or 1 for size in spec.shape[1:])], spec.dtype)
