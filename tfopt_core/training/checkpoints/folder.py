"""The folder of a training's checkpoints: numbered files, of which the last two are kept.

A marker file identifies the folder: nothing is written to or removed from a folder without it,
unless the folder is empty. One process at a time writes.

A file holds plain numbers, no pickle, and a checksum over all of it:

    tfopt-checkpoint-1\\n
    length of the header, 8 bytes, little-endian
    header, JSON: {"values": ..., "arrays": [{"name", "dtype", "shape"}, ...]}
    the arrays' bytes, one after the other, in C order
    SHA-256 of all that comes before, 32 bytes

A torn file, or one with a changed bit, is recognized as damaged. No TensorFlow.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tfopt_core.errors import InputError, StoreError
from tfopt_core.files import Disk, write_whole
from tfopt_core.training.job import ResumePoint

MAGIC = b"tfopt-checkpoint-1\n"
LENGTH_BYTES, DIGEST_BYTES = 8, 32
MARKER = ".tfopt-checkpoints"
KEPT = 2
# A process that was just killed may hold the lock for a moment.
LOCK_SECONDS = 10.0
_NAME = re.compile(r"checkpoint-(\d{6,})\.tfopt")
_TEMPORARY = "writing.tmp"


class DamagedCheckpoint(ValueError):
    """A file that is not a whole checkpoint; the message says why."""


@attrs.frozen(eq=False)
class Checkpoint:
    """The content of a file: values for JSON, and arrays of numbers by name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = attrs.field(factory=dict)


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


def encoded(checkpoint: Checkpoint) -> Iterator[Any]:
    """Yield the bytes of a checkpoint's file, in pieces.

    :raises ValueError: for values that JSON cannot hold, and for arrays of objects.
    """
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


def make_ours(folder: Path) -> None:
    """Make the folder, with the marker.

    :raises InputError: if it is not empty and holds no checkpoints, or cannot be made.
    """
    try:
        if not (folder / MARKER).exists() and folder.exists() and any(folder.iterdir()):
            raise InputError(
                f'"{folder}" is not empty and holds no checkpoints of tfopt, so nothing is written '
                "there; name another folder by --checkpoints"
            )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
    except OSError as error:
        raise InputError(
            f'checkpoints cannot be kept in "{folder}": {error.strerror or error}; name another '
            "folder by --checkpoints"
        ) from error


def names_in(folder: Path) -> list[str]:
    """Return the names of all checkpoints, valid or not, the newest first."""
    if not (folder / MARKER).exists():
        return []
    names = [path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(names, key=_number, reverse=True)


def newest_in(folder: Path) -> ResumePoint:
    """Return where a training resumes: from the newest valid checkpoint, if there is one."""
    damaged: list[str] = []
    for name in names_in(folder):
        try:
            values = read_file(folder / name).values
        except (DamagedCheckpoint, OSError):
            damaged.append(name)
        else:
            return ResumePoint(folder=folder, start=name, values=values, damaged=tuple(damaged))
    return ResumePoint(folder=folder, damaged=tuple(damaged))


@attrs.define(eq=False)
class Writer:
    """Writes checkpoints into a folder with the marker, and keeps the last two valid ones.

    :param valid: names of checkpoints that are known to be valid, oldest first.
    """

    folder: Path
    valid: list[str] = attrs.field(factory=list)
    disk: Disk = attrs.field(factory=Disk)

    def write(self, checkpoint: Checkpoint) -> str:
        """Write another checkpoint. Return its name.

        :raises StoreError: if it cannot be written; the former ones stay as they are.
        """
        number = max((_number(name) for name in names_in(self.folder)), default=0) + 1
        name = f"checkpoint-{number:06}.tfopt"
        try:
            write_whole(
                self.folder / name, encoded(checkpoint),
                temporary=self.folder / _TEMPORARY, disk=self.disk,
            )  # fmt: skip
        except OSError as error:
            last = f'"{self.valid[-1]}" stays the newest' if self.valid else "there is none yet"
            raise StoreError(
                f'a checkpoint cannot be written to "{self.folder}": {error.strerror or error}; '
                f"{last}; make room, and resume by --resume"
            ) from error
        self.valid = [*self.valid, name][-KEPT:]
        # what cannot be removed now is removed after the next one
        with contextlib.suppress(OSError):
            for other in names_in(self.folder):
                if other not in self.valid:
                    self.disk.remove(self.folder / other)
        return name


@contextlib.contextmanager
def writing_alone(folder: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Lock the folder for this process; the system unlocks it when the process dies.

    :param seconds: how long to wait for another process.
    :raises InputError: if that one keeps the lock.
    """
    make_ours(folder)
    descriptor = os.open(folder / MARKER, os.O_RDWR | os.O_CLOEXEC)
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(
                        f'another training writes its checkpoints to "{folder}"; wait for it, end '
                        "it, or name another folder by --checkpoints"
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _number(name: str) -> int:
    return int(name.removeprefix("checkpoint-").removesuffix(".tfopt"))
