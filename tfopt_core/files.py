"""Write a file so that it is the old one or the new one, never a torn one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tfopt_core.errors import InputError

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

    def link(self, source: Path, target: Path) -> None:
        """Rename to a name that no file has.

        :raises FileExistsError: if one has it.
        """
        try:
            os.link(source, target)
        except OSError:
            # some disks know no links; then the check and the renaming are two operations
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, "File exists", str(target)) from None
            os.replace(source, target)
        else:
            source.unlink()

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
    new: bool = False,
) -> None:
    """Write or replace a file, with the permissions that the user's umask gives.

    The file is written under another name in the same folder, reaches the disk, and is renamed
    then. A link keeps pointing at the file that is replaced.

    :param pieces: the bytes, in pieces one after another; whatever making them raises is raised.
    :param temporary: the other name; None for one that nobody else uses.
    :param disk: what carries out the operations.
    :param new: whether there must be no file of this name, nor a link.
    :raises OSError: if it cannot be written; what was there stands, unless the new file is
        already in its place and only its name could not be made to reach the disk.
    """
    disk = disk or Disk()
    if new and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "File exists", str(path))
    path = path.resolve()
    temporary = temporary or path.with_name(f".tfopt-{secrets.token_hex(8)}.tmp")
    try:
        with disk.create(temporary) as file:
            for piece in pieces:
                disk.write(file, piece)
            disk.sync(file)
        if new:
            disk.link(temporary, path)
        else:
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


def write_text(path: Path, text: str, *, replace: bool = False) -> None:
    """Write a file in UTF-8, whole or not at all; over an existing one only with `replace`.

    What is no regular file (`/dev/stdout`, a pipe) is written to directly.

    :raises InputError: if there is such a file already, or it cannot be written.
    """
    try:
        data = text.encode("utf-8")
        if not replace:
            write_whole(path, [data], new=True)
        elif path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            write_whole(path, [data])
    except FileExistsError:
        raise InputError(f'"{path}" exists already; name another file') from None
    except UnicodeEncodeError:
        raise InputError(f'"{path}" cannot be written: a name in it is not UTF-8') from None
    except OSError as error:
        raise InputError(f'"{path}" cannot be written: {error.strerror or error}') from error


def replace_file(source: Path, target: Path) -> None:
    """Copy a file that tfopt has made to where the user wants it: wholly or not at all.

    :raises InputError: if the target cannot be written; says where the source lies.
    """
    try:
        write_whole(target, pieces_of(source))
    except OSError as error:
        raise InputError(
            f'"{target}" cannot be written: {error.strerror or error}; it is kept as "{source}"'
        ) from error
