"""Lock a measurement, so that only one process at a time adds to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tfopt_core.errors import StoreError

LOCK_FILE = "measuring.lock"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a measurement's folder; the system releases it when the process dies.

    :raises StoreError: if another process holds it, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(f'"{folder}" cannot be written: {error.strerror or error}') from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            raise StoreError(
                f'measurement "{folder.name}" is under way in another tfopt (process {holder}); '
                "wait for it, or end it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
        yield
        # nobody waits for the lock: a second process is refused
        (folder / LOCK_FILE).unlink(missing_ok=True)
    finally:
        os.close(descriptor)
