"""The replicas of this process: their parts of a batch, those without examples, their averages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tfopt_core.lazy import tf
from tfopt_core.training.strategy import feeds_itself


def parts_of_a_batch(strategy: Any) -> int:
    """Return how many parts a batch of this process' data set holds: one for each of its replicas
    where it divides the data itself."""
    return len(strategy.extended.worker_devices) if feeds_itself(strategy) else 1


def with_parts(dataset: Any, replicas: int) -> Any:
    """Return a data set whose batches hold a part for each replica.

    :param replicas: of this process; with one replica the data set is returned unchanged.
    """
    if replicas == 1:
        return dataset

    def parts(*batch: Any) -> Any:
        data = batch if len(batch) > 1 else batch[0]
        return {
            _name(i): tf.nest.map_structure(lambda part, i=i: _rows(part, i, replicas), data)
            for i in range(replicas)
        }

    return dataset.map(parts, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _rows(part: Any, index: int, count: int) -> Any:
    size = tf.shape(part)[0]
    return part[size * index // count : size * (index + 1) // count]


def per_replica(strategy: Any, batch: Any, replicas: int, first: int) -> Any:
    """Return what `strategy.run` takes for a batch of parts; other batches go whole to each
    replica.

    :param first: the index of this process' first replica among those of all processes.
    """
    if not (isinstance(batch, dict) and _name(replicas - 1) in batch):
        return batch

    def of(context: Any) -> Any:
        return batch[_name(context.replica_id_in_sync_group - first)]

    return strategy.experimental_distribute_values_from_function(of)


def _name(index: int) -> str:
    """Return the key of a replica's part, which no batch of a user has."""
    return f"tfopt: part of replica {index}"


_AVERAGING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def own_values(model: Any) -> list[Any]:
    """Return the float variables that a step updates without an optimizer, except metrics."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in metrics and str(variable.dtype).startswith(("float", "bfloat"))
    ]


def average_own_values(strategy: Any, model: Any) -> None:
    """Set these variables to their mean over all replicas. All processes must call it at once."""
    variables = own_values(model)
    if not variables or strategy.num_replicas_in_sync == 1:
        return

    def of_replica() -> None:
        replica = tf.distribute.get_replica_context()
        # identity: a variable that is only read has no device in a graph, and cannot be sent
        own = [tf.identity(tf.cast(variable.value, tf.float32)) for variable in variables]
        sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, own)
        for variable, total in zip(variables, sums, strict=True):
            variable.assign(tf.cast(total / replica.num_replicas_in_sync, variable.dtype))

    if model not in _AVERAGING:
        _AVERAGING[model] = tf.function(lambda: strategy.run(of_replica), autograph=False)
    _AVERAGING[model]()


def with_a_row(data: Any) -> Any:
    """Return the data, or one row of zeros in place of none.

    Without a row oneDNN's convolutions and pooling return wrong shapes, and means are NaN. Ragged
    and sparse tensors stay as they are.
    """

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
    there = examples_in(data) > 0
    before = [(variable, tf.identity(variable.value)) for variable in variables]
    yield
    for variable, value in before:
        variable.assign(tf.where(there, variable.value, value))


def examples_in(data: Any) -> Any:
    """Return how many examples a batch holds."""
    first = next(
        part for part in tf.nest.flatten(data, expand_composites=False) if part is not None
    )
    if isinstance(first, tf.RaggedTensor):
        return first.nrows()
    return first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
