"""A private folder as a copy, for machines that mount no overlay."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.training.scripts.private_folder import (
    Change,
    PrivateFolder,
    describe_changes,
    entries_of,
    is_within,
)

# The most bytes and entries that are copied for a run; bytes count where blocks cannot be shared.
MOST_MIB, MOST_ENTRIES = 512, 20_000
# The most entries to link of each folder above the copied one.
MOST_BESIDE = 2_000
# From <linux/fs.h>: share the blocks of a file until one side writes.
FICLONE = 0x40049409

# Size, time and inode: one of them changes when a file is written or replaced.
Status = tuple[int, int, int]


@attrs.frozen(eq=False)
class CopiedFolder(PrivateFolder):
    """A copy of the folder below another root, so that paths with ".." lead to the same place.

    :param root: the folder that takes the place of "/", a real path.
    """

    root: str
    _made: dict[str, Status | None] = attrs.field(factory=dict, init=False)

    @classmethod
    def make(cls, original: Path, root: Path, why: str = "") -> CopiedFolder:
        """Return a copy of a folder (a real path) in `root`, which is empty or missing.

        :param why: why no overlay could be mounted.
        :raises OSError: if the folder cannot be read, or the copy cannot be written.
        :raises WorkloadError: if it is too large to copy.
        """
        os.listdir(original)
        made = cls(original, os.path.realpath(root))
        try:
            made.fill()
        except _TooLarge as error:
            raise WorkloadError(
                f'the folder "{original}" is too large to copy for each run ({error}), and no '
                f"overlay can be mounted over it ({why}); set isolate = false in [workload], and "
                "all runs work in the folder itself"
            ) from None
        return made

    def path_of(self, path: Path) -> Path:
        """Return the path of a file's copy; the path itself if it is no file of the folder."""
        real = path.resolve()
        # the copy may lie within the folder
        is_original = real.is_relative_to(self.original) and not real.is_relative_to(self.root)
        return Path(self._place(str(real))) if is_original else path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text.replace(f"{self.root}/", "/")

    def written(self) -> tuple[str, ...]:
        """Return what was written since the copy was made."""
        return describe_changes(self.original, self._changes())

    def _changes(self) -> Iterator[tuple[str, Change]]:
        gone = dict(self._made)
        for place in _files_below(self.root):
            is_new = place not in gone
            if gone.pop(place, None) != _status(place):
                yield place[len(self.root) :], "new" if is_new else "changed"
        for place in gone:
            yield place[len(self.root) :], "removed"

    def _place(self, path: str) -> str:
        return self.root + path

    def fill(self) -> None:
        """Copy the folder, and link what lies beside and above it."""
        os.makedirs(self._place(str(self.original)))
        for above in self.original.parents:
            for entry in entries_of(str(above))[:MOST_BESIDE]:
                with contextlib.suppress(FileExistsError):
                    self._link(entry.path)
        waiting, count, copied = deque([str(self.original)]), 0, 0
        while waiting:
            for entry in entries_of(waiting.popleft()):
                count += 1
                if count > MOST_ENTRIES:
                    raise _TooLarge(f"more than {MOST_ENTRIES:,} files and folders")
                if is_within(self.root, entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False) and _is_copied(entry):
                    os.mkdir(self._place(entry.path))
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
                    copied += self._copy(entry.path)
                    if copied > MOST_MIB << 20:
                        raise _TooLarge(f"more than {MOST_MIB:,} MiB")
                else:
                    self._link(entry.path)

    def _copy(self, path: str) -> int:
        """Copy a file with its mode and times. Return the bytes copied, 0 if blocks are shared."""
        place, size = self._place(path), 0
        with open(path, "rb") as source, open(place, "xb") as target:
            try:
                fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
            except OSError:
                size = os.fstat(source.fileno()).st_size
                if size <= MOST_MIB << 20:
                    shutil.copyfileobj(source, target, 1 << 20)
        shutil.copystat(path, place)
        self._made[place] = _status(place)
        return size

    def _link(self, path: str) -> None:
        """Make a link to a file or folder; a symlink into the folder leads into the copy."""
        place, text = self._place(path), path
        if os.path.islink(path):
            text = os.readlink(path)
            text = self._place(text) if is_within(text, str(self.original)) else text
        os.symlink(text, place)
        self._made[place] = _status(place)


class _TooLarge(Exception):
    """The folder holds more than is copied; the message says of what."""


def _is_copied(entry: os.DirEntry[str]) -> bool:
    """Return whether to copy a folder: it is readable, and no environment, cache or keys."""
    if entry.name.startswith(".") and entry.name != ".git":
        return False
    if os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
        return False
    return os.access(entry.path, os.R_OK | os.X_OK)


def _files_below(folder: str) -> Iterator[str]:
    for entry in entries_of(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        else:
            yield entry.path


def _status(path: str) -> Status | None:
    """Return the status of a file, or of a link itself; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
