"""Divide a process' part of a batch among the replicas of this process."""

from __future__ import annotations

from typing import Any


def with_parts(dataset: Any, replicas: int) -> Any:
    """Return a data set whose batches hold a part for each replica.

    :param replicas: of this process; with one replica the data set is returned unchanged.
    """
    import tensorflow as tf

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
    import tensorflow as tf

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
