"""Handle replicas without examples, which the last batch of an epoch may leave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


def with_a_row(data: Any) -> Any:
    """Return the data, or one row of zeros in place of none.

    Without a row oneDNN's convolutions and pooling return wrong shapes, and means are NaN. Ragged
    and sparse tensors stay as they are.
    """
    import tensorflow as tf

    def filled(part: Any) -> Any:
        if not isinstance(part, tf.Tensor) or part.shape.rank in (None, 0) or part.shape[0]:
            return part
        shape = tf.concat([[1], tf.shape(part)[1:]], 0)
        row = tf.cond(tf.shape(part)[0] > 0, lambda: part, lambda: tf.zeros(shape, part.dtype))
        return tf.ensure_shape(row, part.shape)

    return tf.nest.map_structure(filled, data)


@contextlib.contextmanager
def untouched_if_empty(variables: Sequence[Any], data: Any) -> Iterator[None]:
    """Restore the variables after the step if its data hold no example."""
    import tensorflow as tf

    there = examples_in(data) > 0
    before = [(variable, tf.identity(variable.value)) for variable in variables]
    yield
    for variable, value in before:
        variable.assign(tf.where(there, variable.value, value))


def examples_in(data: Any) -> Any:
    """Return how many examples a batch holds."""
    import tensorflow as tf

    first = next(
        part for part in tf.nest.flatten(data, expand_composites=False) if part is not None
    )
    if isinstance(first, tf.RaggedTensor):
        return first.nrows()
    return first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
