"""The private folder of a script's run: what is written there stays apart from the user's files.

So a run finds what the first one found.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs

from tfopt_core.training.script.write_watch import WriteWatch

Change = Literal["new", "changed", "removed"]

# Where a private folder lies, in the folder of its run.
PRIVATE = "work"
# The runs of tfopt itself, and what Python makes anew: no files that a script has written.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})
PATHS_SHOWN = 5


@attrs.frozen(eq=False)
class PrivateFolder(abc.ABC):
    """A folder in which a script works, and what it writes stays apart.

    :param original: the user's folder, a real path.
    """

    original: Path

    @property
    @abc.abstractmethod
    def watch(self) -> WriteWatch:
        """What notes the writes to elsewhere."""

    @abc.abstractmethod
    def changes(self) -> Iterator[tuple[str, Change]]:
        """Yield the original path of each file that was written, and how."""

    def path_of(self, path: Path) -> Path:
        """Return where the script finds a file of the folder; itself if it lies elsewhere."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> Mapping[str, Change]:
        """Return what was written, by path: relative to the folder, or absolute elsewhere.

        A folder that was removed whole ends with "/".
        """
        within = f"{self.original}/"
        return dict(sorted((path.removeprefix(within), how) for path, how in self.changes()))

    def notes(self) -> Iterator[str]:
        """Yield what the user is to know of writes that were not kept apart."""
        if self.watch.outside:
            shown = ", ".join(list(self.watch.outside)[:PATHS_SHOWN])
            yield f"the script writes outside of its folder, which is not kept apart: {shown}"


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, less those of tfopt and Python; none if it is unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []
