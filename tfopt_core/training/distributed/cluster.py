"""Agree with the other processes of a cluster on what to train, and leave writing to the chief."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tfopt_core.errors import ClusterError, WorkloadError
from tfopt_core.hooks.context import Cluster, name_of
from tfopt_core.lazy import keras, np, tf

_GATHERING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
# How long a worker that refuses to train stays for the others.
LAST_SECONDS = 1.0


def exchanged(strategy: Any, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every worker's document, in the order of their ranks. All must call this at once.

    It uses TensorFlow's all-gather, which needs no other connection than the training.

    :param document: plain data, fit for JSON.
    """
    own = np.frombuffer(json.dumps(document).encode(), np.uint8).astype(np.int32)
    lengths = gathered(strategy, np.array([[len(own)]], np.int32))
    padded = np.zeros((1, int(lengths.max())), np.int32)
    padded[0, : len(own)] = own
    rows = gathered(strategy, padded)
    return [
        json.loads(row[: int(length)].astype(np.uint8).tobytes())
        for row, length in zip(rows, lengths.ravel(), strict=True)
    ]


def gathered(strategy: Any, row: Any) -> Any:
    """Return the rows of all workers, stacked. All must call this at once."""
    # each replica of a worker sends the same row
    replicas = len(strategy.extended.worker_devices)
    own = strategy.experimental_distribute_values_from_function(lambda _: tf.constant(row))
    if strategy not in _GATHERING:
        # one function for all calls: TensorFlow warns of functions that are traced again and again
        _GATHERING[strategy] = tf.function(
            lambda values: strategy.gather(values, axis=0), autograph=False, reduce_retracing=True
        )
    return _GATHERING[strategy](own).numpy()[::replicas]


def check_agreement(
    cluster: Cluster,
    facts_by_rank: Sequence[Mapping[str, Any]],
    heading: str = "the workers do not train the same; start all with one recipe and the same code",
) -> None:
    """Check that all workers train the same: recipe, code, versions, checkpoints.

    :param facts_by_rank: each worker's facts by name, in the order of ranks.
    :raises ClusterError: naming every difference, with the workers; each of them raises the same.
    """
    names = [name_of(job, index) for job, index in cluster.workers]
    lines = []
    for fact in dict.fromkeys(key for facts in facts_by_rank for key in facts):
        values = [facts.get(fact, "absent") for facts in facts_by_rank]
        others = [n for n, value in zip(names, values, strict=True) if value != values[0]]
        if others:
            lines.append(f"{fact}: {_shown(values[0])} on {names[0]}, " + ", ".join(
                f"{_shown(value)} on {name}"
                for name, value in zip(names, values, strict=True) if name in others
            ))  # fmt: skip
    if lines:
        # the end of this process would break what another worker still receives of the facts
        time.sleep(LAST_SECONDS)
        raise ClusterError("\n".join([heading, *lines]))


def _shown(value: Any) -> str:
    text = str(value)
    return f"{text[:8]}..." if len(text) == 64 else text


def callbacks_of(callbacks: Sequence[Any], cluster: Cluster | None) -> list[Any]:
    """Return the callbacks that this process calls.

    Keras' own callbacks that only write are left to the chief, since several processes writing one
    file damage it. Callbacks that act on the training are called in every process.

    :raises WorkloadError: for BackupAndRestore, which both writes and acts on the training.
    """
    if cluster is None:
        return list(callbacks)
    if any(isinstance(c, keras.callbacks.BackupAndRestore) for c in callbacks):
        raise WorkloadError(
            "the callback BackupAndRestore writes from every worker into one folder; leave it out "
            "and train with `tfopt train --resume`"
        )
    if cluster.is_chief:
        return list(callbacks)
    writers = (
        keras.callbacks.ModelCheckpoint,
        keras.callbacks.CSVLogger,
        keras.callbacks.TensorBoard,
    )
    return [callback for callback in callbacks if not isinstance(callback, writers)]
