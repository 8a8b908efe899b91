"""Agree with the other processes of a cluster, gather their values, and leave writing to the chief.

Weights are the same everywhere. Moving averages of batch normalization come from a
worker's own examples; the chief stores those of all, and each worker gets its own back.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tfopt_core.errors import ClusterError, InputError, WorkloadError
from tfopt_core.hooks import Cluster
from tfopt_core.hooks.context import name_of

_GATHERING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
# How long a worker that refuses to train stays for the others.
LAST_SECONDS = 1.0


def exchanged(strategy: Any, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every worker's document, in the order of their ranks. All must call this at once.

    It uses TensorFlow's all-gather, which needs no other connection than the training.

    :param document: plain data, fit for JSON.
    """
    import numpy as np

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
    import tensorflow as tf

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


def of_every_worker(strategy: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return this worker's arrays by name, with the other workers' where theirs differ.

    All workers must call it at once, with arrays of the same names and shapes.

    :returns: an array of another worker is named `worker 1/NAME`, by rank.
    """
    import numpy as np

    digests = exchanged(
        strategy, {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in own.items()}
    )
    arrays = dict(own)
    differing = [name for name in own if len({by_name[name] for by_name in digests}) > 1]
    if not differing:
        return arrays
    # as bytes, since not every type can be sent; all at once, since each length is traced anew
    sent = b"".join(own[name].tobytes() for name in differing)
    row = np.frombuffer(sent, np.uint8).astype(np.int32)[np.newaxis]
    for rank, received in enumerate(gathered(strategy, row)):
        data, begin = received.astype(np.uint8).tobytes(), 0
        for name in differing:
            array = own[name]
            value = np.frombuffer(data, array.dtype, array.size, begin).reshape(array.shape)
            arrays[_name(rank, name)] = value
            begin += array.nbytes
    return arrays


def of_this_worker(arrays: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the arrays of the worker with this rank.

    :raises InputError: if there were fewer workers when they were gathered.
    """
    prefix, own = _name(rank, ""), dict(arrays)
    gathered_names = {name.partition("/")[2] for name in arrays if name.startswith("worker ")}
    for name in gathered_names:
        if prefix + name not in arrays:
            raise InputError(
                f"the checkpoint holds nothing of a worker {rank}: fewer workers wrote it; resume "
                "with as many workers as then, or train anew in another folder (--checkpoints)"
            )
        own[name] = arrays[prefix + name]
    return own


def _name(rank: int, name: str) -> str:
    return f"worker {rank}/{name}"


def callbacks_of(callbacks: Sequence[Any], cluster: Cluster | None) -> list[Any]:
    """Return the callbacks that this process calls.

    Keras' own callbacks that only write are left to the chief, since several processes writing one
    file damage it. Callbacks that act on the training are called in every process.

    :raises WorkloadError: for BackupAndRestore, which both writes and acts on the training.
    """
    import keras

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
