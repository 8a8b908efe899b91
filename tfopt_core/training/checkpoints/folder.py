"""The folder of a training's checkpoints: numbered files, of which the last two are kept.

A marker file identifies the folder: nothing is written to or removed from a folder without it,
unless the folder is empty. One process at a time writes. No TensorFlow.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.errors import InputError, StoreError
from tfopt_core.files import Disk
from tfopt_core.training.checkpoints.file import (
    Checkpoint,
    DamagedCheckpoint,
    read_file,
    write_file,
)

MARKER = ".tfopt-checkpoints"
KEPT = 2
# A process that was just killed may hold the lock for a moment.
LOCK_SECONDS = 10.0
_NAME = re.compile(r"checkpoint-(\d{6,})\.tfopt")
_TEMPORARY = "writing.tmp"


@attrs.frozen
class Newest:
    """The newest valid checkpoint of a folder, and the newer ones that are damaged.

    :param name: the file's name, None where there is no valid checkpoint.
    """

    name: str | None = None
    checkpoint: Checkpoint | None = None
    damaged: tuple[str, ...] = ()


def check_ours(folder: Path) -> None:
    """Refuse a folder that is not empty and holds no checkpoints.

    :raises InputError: naming it.
    """
    try:
        if (folder / MARKER).exists() or not folder.exists() or not any(folder.iterdir()):
            return
    except OSError as error:
        raise InputError(
            f'checkpoints cannot be kept in "{folder}": {error.strerror or error}; name another '
            "folder by --checkpoints"
        ) from error
    raise InputError(
        f'"{folder}" is not empty and holds no checkpoints of tfopt, so nothing is written there; '
        "name another folder by --checkpoints"
    )


def make_ours(folder: Path) -> None:
    """Make the folder, with the marker.

    :raises InputError: if `check_ours` refuses it, or it cannot be made.
    """
    check_ours(folder)
    try:
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


def newest_in(folder: Path) -> Newest:
    """Read the newest valid checkpoint."""
    damaged: list[str] = []
    for name in names_in(folder):
        try:
            return Newest(name, read_file(folder / name), tuple(damaged))
        except (DamagedCheckpoint, OSError):
            damaged.append(name)
    return Newest(damaged=tuple(damaged))


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
            write_file(self.folder / name, self.folder / _TEMPORARY, checkpoint, self.disk)
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
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match.group(1))
