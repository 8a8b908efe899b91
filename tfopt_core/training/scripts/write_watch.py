"""An audit hook that notes or refuses what Python writes outside of a private folder."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

MOST_NOTES = 50
# Folders in which Python, libraries and tfopt write for themselves.
_IGNORED = frozenset({".tfopt", "__pycache__", "site-packages", "dist-packages"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# A hook cannot be removed from a process: it is added once, and does nothing without a watch.
_watch: WriteWatch | None = None
_is_added = False


def system_folders() -> tuple[str, ...]:
    """Return the folders in which programs write for themselves: temporary ones, caches."""
    home = os.path.expanduser("~")
    named = [
        os.environ.get(variable)
        for variable in ("KERAS_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    ]
    caches = [f"{home}/{name}" for name in (".cache", ".config", ".keras", ".nv")]
    folders = [tempfile.gettempdir(), "/dev", "/proc", "/sys", "/run", sys.prefix, *caches, *named]
    return tuple({os.path.realpath(folder) for folder in folders if folder})


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies below it; only the texts are compared."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@attrs.frozen(eq=False)
class WriteWatch:
    """Notes the writes outside of the private folder.

    :param private: real paths of folders in which writes stay apart.
    :param original: the user's folder; all writes in it are noted, even in a system folder.
    :param arrange: called before a write elsewhere with its path, its real path, and whether it
        empties a file. Returns whether it stays apart after all; an `OSError` prevents the write.
    :param outside: the paths that were written, in order.
    """

    private: tuple[str, ...]
    original: str
    arrange: Callable[[str, str, bool], bool] = lambda named, real, empties: False
    unnoted: tuple[str, ...] = attrs.field(factory=system_folders)
    outside: dict[str, None] = attrs.field(factory=dict)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch this process and those that it forks."""
        global _watch, _is_added
        if not _is_added:
            sys.addaudithook(_on_event)
            _is_added = True
        _watch = self
        try:
            yield
        finally:
            _watch = None

    def writing(self, named: str, real: str, *, empties: bool) -> None:
        """Note a write that is about to happen.

        :raises OSError: if it is refused.
        """
        private = any(is_within(real, folder) for folder in self.private)
        if private or self.arrange(named, real, empties):
            return
        if real not in self.outside and len(self.outside) < MOST_NOTES and self.is_noted(real):
            self.outside[real] = None

    def is_noted(self, real: str) -> bool:
        """Return whether to note a write to this path."""
        if not _IGNORED.isdisjoint(real.split("/")):
            return False
        return is_within(real, self.original) or not any(
            is_within(real, folder) for folder in self.unnoted
        )


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    watch, places = _watch, _WRITTEN.get(event)
    if watch is None or places is None:
        return
    empties = False
    if event == "open":
        flags = arguments[2]
        if not flags & _WRITES:
            return
        empties = bool(flags & os.O_TRUNC)
    for number, folder in places:
        named = _absolute(arguments[number], -1 if folder is None else arguments[folder])
        if named is not None:
            real = _real_entry(named) if event in _OF_ENTRIES else os.path.realpath(named)
            watch.writing(named, real, empties=empties)


def _absolute(path: object, folder: object) -> str | None:
    """Return the absolute path, symlinks not followed; None for a descriptor.

    :param folder: the descriptor of the folder that it is relative to, -1 for the working one.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    try:
        base = os.readlink(f"/proc/self/fd/{folder}") if folder not in (-1, None) else os.getcwd()
        # not shortened: ".." after a symlink leads up from what that leads to
        return os.path.join(base, os.fsdecode(path)).rstrip("/") or "/"
    except (OSError, ValueError):
        return None


def _real_entry(path: str) -> str:
    """Return the path with a real folder; its last part is not followed."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


# By event, the indices of the written path and of the folder descriptor that it is relative to.
# https://docs.python.org/3/library/audit_events.html
_OF_ENTRIES = {
    "os.link": ((1, 3),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
}
_WRITTEN: dict[str, tuple[tuple[int, int | None], ...]] = {
    **_OF_ENTRIES,
    "open": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
}
