"""The audit hook by which Python says what it is about to do to files, in time to prepare it.

A hook can't be removed from a process. This one is added once and does nothing without a guard.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfopt_core.training.scripts.copy_up import CannotCopy
from tfopt_core.training.scripts.guard import OpenGuard, database_path

Arguments = tuple[Any, ...]
Prepare = Callable[[OpenGuard, Arguments], None]

_guard: OpenGuard | None = None
_is_added = False
# whether this thread is preparing: what that does to files is its own business
_busy = threading.local()


def watch(guard: OpenGuard | None) -> None:
    """Have this guard called before each event, or none.

    :raises RuntimeError: if there is another guard already.
    """
    global _guard, _is_added
    if guard is not None and _guard is not None:
        raise RuntimeError("a private folder is entered already in this process")
    _guard = guard
    if not _is_added:
        sys.addaudithook(_heard)
        _is_added = True


def prepare(action: Callable[[OpenGuard], None]) -> None:
    """Let the guard prepare something, if there is one and it isn't busy.

    :raises OSError: if a copy cannot be made; what was to be prepared must not happen then.
    """
    guard = _guard
    if guard is None or getattr(_busy, "now", False):
        return
    with unwatched():
        try:
            action(guard)
        except CannotCopy as error:
            raise error.cause from None
        except Exception:
            return  # odd arguments: the call itself will say so


@contextmanager
def unwatched() -> Iterator[None]:
    """What this thread does to files inside passes unnoticed."""
    before = getattr(_busy, "now", False)
    _busy.now = True
    try:
        yield
    finally:
        _busy.now = before


def _heard(event: str, arguments: Arguments) -> None:
    if _guard is None:
        return
    prepares = _PREPARES.get(event)
    if prepares is not None:
        prepare(lambda guard: prepares(guard, arguments))


def absolute(path: Any, folder: Any = -1) -> str | None:
    """A path of an event as absolute text; None for a descriptor.

    :param folder: the descriptor of the folder that it is relative to, negative for the working
        directory.
    """
    if isinstance(path, int):
        return None
    text = os.fsdecode("." if path is None else path)
    if os.path.isabs(text):
        return text
    by_descriptor = isinstance(folder, int) and folder >= 0
    base = os.readlink(f"/proc/self/fd/{folder}") if by_descriptor else os.getcwd()
    return f"{base}/{text}"


def _open(guard: OpenGuard, arguments: Arguments) -> None:
    path, mode, flags = arguments[:3]
    where = absolute(path)
    if where is not None:
        guard.opening(where, flags, by_descriptor=mode is None)


def _connect(guard: OpenGuard, arguments: Arguments) -> None:
    path = database_path(os.fsdecode(arguments[0]))
    where = None if path is None else absolute(path)
    if where is not None:
        guard.opening_database(where)


def _glob(guard: OpenGuard, arguments: Arguments) -> None:
    if "**" in str(arguments[1]):
        _walk(guard, arguments)


def _walk(guard: OpenGuard, arguments: Arguments) -> None:
    where = absolute(arguments[0])
    if where is not None:
        guard.starting_to_walk(where)


def _with(method: Callable[[OpenGuard, str], None], folder: int | None = None) -> Prepare:
    """Call a method with the event's first argument.

    :param folder: which argument is the descriptor that the path is relative to.
    """

    def prepares(guard: OpenGuard, arguments: Arguments) -> None:
        where = absolute(arguments[0], -1 if folder is None else arguments[folder])
        if where is not None:
            method(guard, where)

    return prepares


def _with_both(method: Callable[[OpenGuard, str, str], None]) -> Prepare:
    """Call a method with the event's first two arguments, two paths."""

    def prepares(guard: OpenGuard, arguments: Arguments) -> None:
        path, other, path_folder, other_folder = arguments[:4]
        where, there = absolute(path, path_folder), absolute(other, other_folder)
        if where is not None and there is not None:
            method(guard, where, there)

    return prepares


def _symlink(guard: OpenGuard, arguments: Arguments) -> None:
    where = absolute(arguments[1], arguments[2])
    if where is not None:
        guard.symlinking(where)


# https://docs.python.org/3/library/audit_events.html
_PREPARES: dict[str, Prepare] = {
    "open": _open,
    "os.chdir": _with(OpenGuard.using_folder),
    "os.chmod": _with(OpenGuard.changing, 2),
    "os.chown": _with(OpenGuard.changing, 3),
    "os.fwalk": _walk,
    "os.link": _with_both(OpenGuard.linking),
    "os.mkdir": _with(OpenGuard.making_folder, 2),
    "os.remove": _with(OpenGuard.removing, 1),
    "os.removexattr": _with(OpenGuard.changing),
    "os.rename": _with_both(OpenGuard.renaming),
    "os.rmdir": _with(OpenGuard.removing, 1),
    "os.scandir": _with(OpenGuard.listing),
    "os.setxattr": _with(OpenGuard.changing),
    "os.symlink": _symlink,
    "os.truncate": _with(OpenGuard.changing),
    "os.utime": _with(OpenGuard.changing, 3),
    "os.walk": _walk,
    "pathlib.Path.glob": _glob,
    "pathlib.Path.rglob": _walk,
    "pathlib.Path.walk": _walk,
    "shutil.rmtree": _with(OpenGuard.removing_tree, 1),
    "sqlite3.connect": _connect,
}
