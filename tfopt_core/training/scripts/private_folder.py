"""The private folder of a script's run: its writes stay apart from the user's files.

So every run begins with the same files.
"""

from __future__ import annotations

import abc
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs

Change = Literal["new", "changed", "removed"]

# The name of a private folder, in the folder of its run.
PRIVATE = "work"
# Files of tfopt and Python, which do not count as written by a script.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})


@attrs.frozen
class PrivateFolder(abc.ABC):
    """A private folder, made before the process of its run starts.

    :param original: the folder in which the script runs, a real path.
    :param folders: the folders whose writes stay apart, real paths; see `private_folders`.
    :param place: a folder, empty or missing, for what is written to them.
    """

    original: Path
    folders: tuple[str, ...]
    place: str

    @abc.abstractmethod
    def command(self) -> list[str]:
        """Return the command behind which the program of the run starts; empty for none."""

    @abc.abstractmethod
    def mount(self) -> None:
        """Mount what there is to mount in this process, which has one thread.

        :raises OSError: if the kernel, or a rule of this machine, refuses it.
        """

    def path_of(self, path: Path) -> Path:
        """Return the path at which the script finds a file."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> tuple[str, ...]:
        """Return what the run has written, as sorted texts: "log.txt (new)".

        Paths in the script's folder are relative to it. Call it in tfopt's own process.
        """
        within = f"{self.original}/"
        return tuple(
            sorted(f"{path.removeprefix(within)} ({how})" for path, how in self._changes())
        )

    @abc.abstractmethod
    def _changes(self) -> Iterator[tuple[str, Change]]:
        """Yield each path that was changed, with a "/" at its end for a whole folder."""


def private_folders(folder: Path) -> tuple[str, ...]:
    """Return the real paths of the folders that are private in a script's run.

    They are the folder that it runs in (a real path), or the Git checkout that this is part of, and
    folders of this user that symlinks in it lead to.
    """
    top = str(next((up for up in (folder, *folder.parents) if (up / ".git").exists()), folder))
    linked = {
        os.path.realpath(entry.path)
        for entry in os.scandir(folder)
        # (`DirEntry.is_dir` raises for a circle)
        if entry.is_symlink() and os.path.isdir(entry.path) and entry.stat().st_uid == os.geteuid()
    }
    found = [top]
    for path in sorted(linked):
        if not any(is_within(path, one) or is_within(one, path) for one in found):
            found.append(path)
    return tuple(found)


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


def is_folder(path: str) -> bool:
    """Return whether a path is a folder, and no symlink."""
    return os.path.isdir(path) and not os.path.islink(path)


def size_and_time(path: str) -> tuple[int, int]:
    """Return the bytes of a file and when it was written: one of them changes by a write."""
    status = os.lstat(path)
    return status.st_size, status.st_mtime_ns


def removed(path: str) -> tuple[str, Change]:
    """Return that a file or a whole folder was removed."""
    return f"{path}/" if is_folder(path) else path, "removed"


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder without those of tfopt and Python; none if unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []


def move_log_folders(callbacks: Iterable[Any], private: PrivateFolder) -> None:
    """Have each TensorBoard log at the private folder's path of its `log_dir`.

    TensorFlow's own code writes there, which neither a copied folder nor its watch sees. Callbacks
    that write by Python are left alone: the script may read their files, and such writes are noted.
    """
    import keras

    for callback in callbacks:
        if isinstance(callback, keras.callbacks.TensorBoard):
            callback.log_dir = str(private.path_of(Path(callback.log_dir)))
