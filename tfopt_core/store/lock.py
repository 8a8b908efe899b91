"""Lock a project's results, and a measurement, so that one process at a time measures."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tfopt_core.errors import StoreError

LOCK_FILE = "measuring.lock"
POLL_SECONDS = 0.2
# The most bytes of a lock file that are shown.
HOLDER_BYTES = 300


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a measurement's folder; the system releases it when the process dies.

    :raises StoreError: if another process holds it, or the folder cannot be written.
    """

    def refuse(holder: str) -> None:
        raise StoreError(
            f'measurement "{folder.name}" is under way in another tfopt (process {holder}); wait '
            "for it, or end it"
        )

    with measuring_alone(folder, str(os.getpid()), refuse):
        yield
        # nobody waits for the lock: a second process is refused
        (folder / LOCK_FILE).unlink(missing_ok=True)


@contextlib.contextmanager
def measuring_alone(folder: Path, holder: str, on_wait: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock of a project's results, and wait for it while another process has it.

    Measurements side by side would disturb each other. The system releases the lock when the
    process dies; its file stays, since a process that waits has opened it.

    :param folder: the folder of the project's results.
    :param holder: this process in words, for those that wait.
    :param on_wait: called with the holder's words, again when another one has the lock; what it
        raises ends the waiting.
    :raises StoreError: if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(f'"{folder}" cannot be written: {error.strerror or error}') from error
    try:
        known = None
        while not _locked(descriptor):
            other = os.pread(descriptor, HOLDER_BYTES, 0).decode("utf-8", "replace").strip()
            if other != known:
                known = other
                on_wait(other)
            time.sleep(POLL_SECONDS)
        _name_holder(descriptor, holder)
        yield
        _name_holder(descriptor, "")
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock if nobody holds it. Return whether this process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_holder(descriptor: int, holder: str) -> None:
    """Write who holds the lock; without room on the disk it stays unnamed."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode("utf-8", "replace")[:HOLDER_BYTES], 0)
