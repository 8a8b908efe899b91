"""Values that the workers of a training have each their own of: gathered, so that the chief keeps
all of them, and each gets its own back.

Weights are the same everywhere. Moving averages of batch normalization and the sums of metrics are
those of a worker's own examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tfopt_core.errors import InputError
from tfopt_core.training.distributed.agreement import exchanged, gathered


def of_every_worker(strategy: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """This worker's arrays by name, and beside them the other workers' where theirs differ.

    All workers must call it at once, with arrays of the same names and shapes.

    :returns: an array of another worker is named `worker 1/NAME`, by rank.
    """
    import numpy as np

    digests = exchanged(
        strategy, {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in own.items()}
    )
    arrays = dict(own)
    differing = [name for name in own if len({said[name] for said in digests}) > 1]
    if not differing:
        return arrays
    # as bytes, since not every type can be sent, and all at once: each length is traced anew
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
    """The arrays that the worker of this rank had.

    :raises InputError: if there were fewer workers when they were gathered.
    """
    prefix, found = _name(rank, ""), dict(arrays)
    gathered_ones = {name.partition("/")[2] for name in arrays if name.startswith("worker ")}
    for name in gathered_ones:
        if prefix + name not in arrays:
            raise InputError(
                f"the checkpoint holds nothing of a worker {rank}: it was written by fewer; go on "
                "with as many workers as then, or train anew in another folder (--checkpoints)"
            )
        found[name] = arrays[prefix + name]
    return found


def _name(rank: int, name: str) -> str:
    return f"worker {rank}/{name}"
