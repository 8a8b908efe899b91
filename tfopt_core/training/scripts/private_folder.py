"""The private folder of a script's run: what is written there stays apart from the user's files.

So a run finds what the first one found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import attrs

from tfopt_core.training.scripts.write_watch import WriteWatch

Change = Literal["new", "changed", "removed"]

# Where a private folder lies, in the folder of its run.
PRIVATE = "work"
# The runs of tfopt itself, and what Python makes anew: no files that a script has written.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})
PATHS_SHOWN = 5


@attrs.frozen(eq=False)
class PrivateFolder:
    """The folder in which a script works, as its process sees it: here the one of an overlay.

    :param original: the user's folder, a real path.
    :param watch: what notes the writes to elsewhere.
    """

    original: Path
    watch: WriteWatch

    def path_of(self, path: Path) -> Path:
        """Return where the script finds a file of the folder; itself if it lies elsewhere."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> tuple[str, ...] | None:
        """Return what was written, as `told` does; None if another process tells it."""
        return None

    def notes(self) -> Iterator[str]:
        """Yield what the user is to know of writes that were not kept apart."""
        if self.watch.outside:
            shown = ", ".join(list(self.watch.outside)[:PATHS_SHOWN])
            yield f"the script writes outside of its folder, which is not kept apart: {shown}"


def told(original: Path, changes: Iterable[tuple[str, Change]]) -> tuple[str, ...]:
    """Return changes as texts, "log.txt (new)", sorted: paths in the folder relative to it.

    :param changes: each path, with a "/" at its end for a whole folder, and what became of it.
    """
    within = f"{original}/"
    return tuple(sorted(f"{path.removeprefix(within)} ({how})" for path, how in changes))


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, less those of tfopt and Python; none if it is unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []
