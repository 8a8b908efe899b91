"""The private folder of a script's run: its writes stay apart from the user's files.

So every run begins with the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import attrs

from tfopt_core.training.scripts.write_watch import WriteWatch

Change = Literal["new", "changed", "removed"]

# The name of a private folder, in the folder of its run.
PRIVATE = "work"
# Files of tfopt and Python, which do not count as written by a script.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})
PATHS_SHOWN = 5


@attrs.frozen(eq=False)
class PrivateFolder:
    """The folder in which a script works, as its process sees it; this one has an overlay.

    :param original: the user's folder, a real path.
    :param watch: notes the writes outside of the folder.
    """

    original: Path
    watch: WriteWatch

    def path_of(self, path: Path) -> Path:
        """Return the path at which the script finds a file."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> tuple[str, ...] | None:
        """Return what was written; None if another process reports it."""
        return None

    def notes(self) -> Iterator[str]:
        """Yield notes for the user on writes that were not kept apart."""
        if self.watch.outside:
            shown = ", ".join(list(self.watch.outside)[:PATHS_SHOWN])
            yield f"the script writes outside of its folder, which is not kept apart: {shown}"


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
