"""A private folder as a copy, for machines that mount no overlay; large files are links."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.training.scripts.private_folder import (
    PATHS_SHOWN,
    Change,
    PrivateFolder,
    describe_changes,
    entries_of,
)
from tfopt_core.training.scripts.write_watch import WriteWatch, is_within

# The most bytes to copy, of one file and of all files, where blocks cannot be shared.
FILE_BYTES, ALL_BYTES = 128 << 20, 512 << 20
# The most entries to copy, those near the top first; later folders are links as a whole.
MOST_ENTRIES = 20_000
# The most entries to link of each folder above the copied one.
MOST_BESIDE = 2_000
# `Path(__file__).resolve()` must stay in the copy, so these are never links.
PYTHON = (".py", ".pyi", ".pyw")
# From <linux/fs.h>: share the blocks of a file until one side writes.
FICLONE = 0x40049409

# Size, time and inode: one of them changes when a file is written or replaced.
Status = tuple[int, int, int]


@attrs.frozen(eq=False)
class CopiedFolder(PrivateFolder):
    """A copy of the folder below another root, so that paths with ".." lead to the same place.

    :param root: the folder that takes the place of "/", a real path.
    :param why: why no overlay could be mounted.
    """

    root: str
    why: str = ""
    watch: WriteWatch = attrs.field(init=False)
    _made: dict[str, Status | None] = attrs.field(factory=dict, init=False)
    _linked: dict[str, Status | None] = attrs.field(factory=dict, init=False)

    @watch.default
    def _make_watch(self) -> WriteWatch:
        return WriteWatch((self.root,), str(self.original), self._arrange)

    @classmethod
    def make(cls, original: Path, root: Path, why: str = "") -> CopiedFolder:
        """Return a copy of a folder (a real path) in `root`, which is empty or missing.

        :raises OSError: if the folder cannot be read, or the copy cannot be written.
        """
        os.listdir(original)
        made = cls(original, os.path.realpath(root), why)
        made.fill()
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

    def notes(self) -> Iterator[str]:
        """Yield notes on writes elsewhere, those through links included."""
        yield from super().notes()
        changed = [path for path, before in self._linked.items() if before != _status(path)]
        if changed:
            shown = ", ".join(sorted(changed)[:PATHS_SHOWN])
            yield (
                "files of the folder itself were changed, by native code of the script or by "
                "another program; they are too large to copy, and an overlay cannot be mounted "
                f"({self.why}): {shown}"
            )

    def _place(self, path: str) -> str:
        return self.root + path

    def fill(self) -> None:
        """Copy the folder, and link what lies beside and above it."""
        os.makedirs(self._place(str(self.original)))
        for above in self.original.parents:
            for entry in entries_of(str(above))[:MOST_BESIDE]:
                with contextlib.suppress(FileExistsError):
                    self._link(entry.path)
        waiting, count, room = deque([str(self.original)]), 0, ALL_BYTES
        while waiting:
            for entry in entries_of(waiting.popleft()):
                count += 1
                if is_within(self.root, entry.path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if count <= MOST_ENTRIES and _is_copied(entry):
                        os.mkdir(self._place(entry.path))
                        waiting.append(entry.path)
                        continue
                elif entry.is_file(follow_symlinks=False):
                    most = min(FILE_BYTES, room)
                    size = self._copy(entry.path, None if entry.name.endswith(PYTHON) else most)
                    if size is not None:
                        room -= size
                        continue
                    self._linked[entry.path] = _status(entry.path)
                self._link(entry.path)

    def _copy(self, path: str, most: int | None) -> int | None:
        """Copy a file with its mode and times. Return the bytes copied, 0 if blocks are shared;
        None, without a copy, if it is larger than `most` or unreadable."""
        place, size = self._place(path), 0
        try:
            with open(path, "rb") as source, open(place, "xb") as target:
                try:
                    fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
                except OSError:
                    size = os.fstat(source.fileno()).st_size
                    if most is not None and size > most:
                        os.remove(place)
                        return None
                    shutil.copyfileobj(source, target, 1 << 20)
        except PermissionError:
            return None
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

    def _arrange(self, named: str, real: str, empties: bool) -> bool:
        """Refuse a write through a link, unless it empties the file: then remove the link.

        :returns: whether the write stays in the copy.
        :raises OSError: if the write is refused.
        """
        inside = is_within(os.path.normpath(named), self.root)
        if real in self._linked:
            if inside and empties and os.path.islink(named) and os.readlink(named) == real:
                os.remove(named)
                return True
        elif not (inside and self.watch.is_noted(real)):
            return False
        raise OSError(
            errno.EROFS,
            "a measured run cannot write this, as it is too large to copy or lies elsewhere; set "
            f"isolate = false in [workload], or have overlay mounts allowed ({self.why})",
            self.in_words(named),
        )


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
