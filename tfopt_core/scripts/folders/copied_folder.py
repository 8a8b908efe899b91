"""A private folder as a copy, for machines that mount no overlay."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.errors import InputError
from tfopt_core.scripts.folders.private_folder import (
    Change,
    PrivateFolder,
    changes,
    entries_of,
    is_unchanged,
    is_within,
    private_folders,
    system_folders,
)

# The most bytes to copy for a run, and what an entry without bytes counts.
LIMIT_BYTES, ENTRY_BYTES = 1 << 30, 4096
# The most entries to link of each folder above a copied one.
MOST_BESIDE = 2_000


@attrs.frozen
class CopiedFolder(PrivateFolder):
    """Copies of the folders below another root, so that paths with ".." lead to the same place.

    `place` takes the place of "/". Links stand for what lies beside and above the folders, and for
    environments of Python and caches in them, which no run needs for itself.
    """

    @classmethod
    def make(cls, folder: Path, place: Path, why_no_overlay: str) -> CopiedFolder:
        """Copy what is private for a script that runs in this folder, a real path.

        :raises InputError: if it is more than `LIMIT_BYTES`, or cannot be copied.
        """
        made = cls(folder, private_folders(folder), os.path.realpath(place))
        try:
            made.fill(why_no_overlay)
        except OSError as error:
            raise InputError(
                f'"{error.filename}" cannot be copied into the private folder of a run: '
                f"{error.strerror}; isolate = false in [workload] runs in the folder itself"
            ) from error
        return made

    def mount(self) -> None:
        """Do nothing: the copy is there."""

    def path_of(self, path: Path) -> Path:
        """Return the path of a file's copy; the path itself if it is no file of the folders."""
        real = str(path.resolve())
        # the copy may lie within the folder
        private = any(is_within(real, folder) for folder in self.folders)
        return Path(self._copy_of(real)) if private and not is_within(real, self.place) else path

    def in_words(self, text: str) -> str:
        return text.replace(f"{self.place}/", "/")

    def _copy_of(self, path: str) -> str:
        return self.place + path

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        return [entry for entry in entries_of(folder) if entry.path != self.place]

    def fill(self, why_no_overlay: str) -> None:
        """Copy the folders.

        :raises InputError: if they are too large; the copy is made in part then.
        """
        for folder in self.folders:
            os.makedirs(self._copy_of(folder))
        for folder in self.folders:
            for above in Path(folder).parents:
                for entry in entries_of(str(above))[:MOST_BESIDE]:
                    with contextlib.suppress(FileExistsError):
                        self._link(entry.path)
        shared = system_folders()
        waiting, left = deque(self.folders), LIMIT_BYTES
        while waiting:
            for entry in self._entries(waiting.popleft()):
                size = entry.stat(follow_symlinks=False).st_size
                left -= max(size if entry.is_file(follow_symlinks=False) else 0, ENTRY_BYTES)
                if left < 0:
                    named = " and ".join(f'"{folder}"' for folder in self.folders)
                    raise InputError(
                        f"a measured run works on a copy of {named}, and that is more than "
                        f"{LIMIT_BYTES >> 20:,} MiB; isolate = false in [workload] (or --set "
                        "workload.isolate=false) runs in the folder itself; or have overlay "
                        f"mounts allowed ({why_no_overlay})"
                    )
                if entry.is_dir(follow_symlinks=False) and _is_copied(entry, shared):
                    os.mkdir(self._copy_of(entry.path))
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
                    shutil.copy2(entry.path, self._copy_of(entry.path))
                else:
                    self._link(entry.path)

    def _link(self, path: str) -> None:
        os.symlink(self._target(path), self._copy_of(path))

    def _target(self, path: str) -> str:
        """Return where the link for a path leads: to it, or as the symlink that it is."""
        if not os.path.islink(path):
            return path
        text = os.readlink(path)
        is_private = any(is_within(text, folder) for folder in self.folders)
        return self._copy_of(text) if is_private else text

    def _changes(self) -> Iterator[tuple[str, Change]]:
        for folder in self.folders:
            for path, how in changes(self._copy_of(folder), folder, self._is_as_copied, anew=True):
                if path != f"{self.place}/":
                    yield path, how

    def _is_as_copied(self, copy: str, path: str) -> bool:
        if os.path.islink(copy):
            return os.readlink(copy) == self._target(path)
        return is_unchanged(copy, path)


def _is_copied(entry: os.DirEntry[str], shared: tuple[str, ...]) -> bool:
    """Return whether to copy a folder: it is readable, and neither an environment nor a cache."""
    if entry.path in shared or os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
        return False
    return os.access(entry.path, os.R_OK | os.X_OK)
