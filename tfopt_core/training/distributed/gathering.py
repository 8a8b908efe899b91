"""Gather values that differ between the workers, so that a checkpoint holds them all.

Weights are the same everywhere. Moving averages of batch normalization come from a
worker's own examples; the chief stores those of all, and each worker gets its own back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tfopt_core.errors import InputError
from tfopt_core.training.distributed.agreement import exchanged, gathered


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
