"""The file of a checkpoint: plain numbers, no pickle, and a checksum over all of it.

    tfopt-checkpoint-1\\n
    length of the header, 8 bytes, little-endian
    header, JSON: {"values": ..., "arrays": [{"name", "dtype", "shape"}, ...]}
    the arrays' bytes, one after the other, in C order
    SHA-256 of all that comes before, 32 bytes

A torn file, or one with a changed bit, is recognized as damaged. No TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tfopt_core.files import Disk, write_whole

MAGIC = b"tfopt-checkpoint-1\n"
LENGTH_BYTES, DIGEST_BYTES = 8, 32


class DamagedCheckpoint(ValueError):
    """A file that is not a whole checkpoint; the message says why."""


@attrs.frozen(eq=False)
class Checkpoint:
    """The content of a file: values for JSON, and arrays of numbers by name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = attrs.field(factory=dict)


def write_file(path: Path, temporary: Path, checkpoint: Checkpoint, disk: Disk) -> None:
    """Write a checkpoint, as a whole or not at all.

    :param temporary: a path in the same folder, which is removed if writing fails.
    :raises OSError: if it cannot be written.
    :raises ValueError: for values that JSON cannot hold, and for arrays of objects.
    """
    write_whole(path, _with_digest(checkpoint), temporary=temporary, disk=disk)


def read_file(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; its arrays are read-only.

    :raises DamagedCheckpoint: if it is not whole.
    :raises OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise DamagedCheckpoint("the file is empty") from None
    whole = memoryview(data)
    body = whole[:-DIGEST_BYTES]
    if bytes(whole[: len(MAGIC)]) != MAGIC:
        raise DamagedCheckpoint("it does not begin as a checkpoint does")
    if hashlib.sha256(body).digest() != bytes(whole[-DIGEST_BYTES:]):
        raise DamagedCheckpoint("its checksum is wrong")
    # the checksum is right, so all that follows is as it was written
    begin = len(MAGIC) + LENGTH_BYTES
    length = int.from_bytes(body[len(MAGIC) : begin], "little")
    header = json.loads(bytes(body[begin : begin + length]))
    return Checkpoint(header["values"], dict(_arrays(header["arrays"], body[begin + length :])))


def _with_digest(checkpoint: Checkpoint) -> Iterator[Any]:
    digest = hashlib.sha256()
    for part in _parts(checkpoint):
        digest.update(part)
        yield part
    yield digest.digest()


def _parts(checkpoint: Checkpoint) -> Iterator[Any]:
    arrays = {name: _in_c_order(name, array) for name, array in checkpoint.arrays.items()}
    specs = [
        {"name": name, "dtype": array.dtype.str, "shape": array.shape}
        for name, array in arrays.items()
    ]
    header = json.dumps({"values": checkpoint.values, "arrays": specs}).encode()
    yield MAGIC
    yield len(header).to_bytes(LENGTH_BYTES, "little")
    yield header
    for array in arrays.values():
        if array.size:
            yield array.reshape(-1).view(np.uint8).data


def _in_c_order(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biufc":
        raise ValueError(f'"{name}" holds no numbers but {array.dtype}')
    # (ascontiguousarray makes a vector of a scalar)
    return np.ascontiguousarray(array).reshape(array.shape)


def _arrays(specs: Any, data: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    begin = 0
    for spec in specs:
        dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        yield spec["name"], np.frombuffer(data[begin : begin + size], dtype).reshape(shape)
        begin += size
