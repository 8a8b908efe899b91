"""The private folder of a script's run: its writes stay apart from the user's files.

So every run begins with the same files.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import attrs

Change = Literal["new", "changed", "removed"]

# The name of a private folder, in the folder of its run.
PRIVATE = "work"
# Files of tfopt and Python, which do not count as written by a script.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})


@attrs.frozen(eq=False)
class PrivateFolder:
    """The folder in which a script works, as its process sees it; this one has an overlay.

    :param original: the user's folder, a real path.
    """

    original: Path

    def path_of(self, path: Path) -> Path:
        """Return the path at which the script finds a file."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> tuple[str, ...] | None:
        """Return what was written; None if another process reports it."""
        return None


def describe_changes(original: Path, changes: Iterable[tuple[str, Change]]) -> tuple[str, ...]:
    """Return changes as sorted texts, "log.txt (new)", with paths relative to the folder.

    :param changes: each path, with a "/" at its end for a whole folder, and its change.
    """
    within = f"{original}/"
    return tuple(sorted(f"{path.removeprefix(within)} ({how})" for path, how in changes))


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder without those of tfopt and Python; none if unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []


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
