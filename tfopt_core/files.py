"""Write a file so that it is the old one or the new one, never a torn one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

PIECE_BYTES = 2**20


class Disk:
    """What writing does to a disk, one method each; tests have the n-th one fail."""

    def create(self, path: Path) -> BinaryIO:
        """Open a new file, over a former one of this name."""
        return path.open("wb")

    def write(self, file: BinaryIO, data: Any) -> None:
        """Append these bytes."""
        file.write(data)

    def sync(self, file: BinaryIO) -> None:
        """Have what was written reach the disk."""
        file.flush()
        os.fsync(file.fileno())

    def replace(self, source: Path, target: Path) -> None:
        """Rename, over a former file of this name, as one operation."""
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Have the names in a folder reach the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)


def write_whole(
    path: Path,
    pieces: Iterable[Any],
    *,
    temporary: Path | None = None,
    disk: Disk | None = None,
) -> None:
    """Write or replace a file, with the permissions that the user's umask gives.

    The file is written under another name in the same folder, reaches the disk, and is renamed
    then. A link keeps pointing at the file that is replaced.

    :param pieces: the bytes, in pieces one after another; whatever making them raises is raised.
    :param temporary: the other name; None for one that nobody else uses.
    :param disk: what carries out the operations.
    :raises OSError: if it cannot be written; what was there stands, unless the new file is
        already in its place and only its name could not be made to reach the disk.
    """
    disk = disk or Disk()
    path = path.resolve()
    temporary = temporary or path.with_name(f".tfopt-{secrets.token_hex(8)}.tmp")
    try:
        with disk.create(temporary) as file:
            for piece in pieces:
                disk.write(file, piece)
            disk.sync(file)
        disk.replace(temporary, path)
        disk.sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield what a file holds, in pieces of at most 1 MiB.

    :raises OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
