"""Mirroring: a tree that looks like a folder, made quickly, without writing to the folder."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.training.scripts.stand_ins import LEFT_OUT, Tree, clone, set_status


@attrs.frozen
class FileRecord:
    """A copy or link of the tree as it was made.

    :param size: of the file in bytes; None for whatever else was linked, or was not looked at.
    :param text: of the link, empty for a copy.
    """

    size: int | None
    mtime_ns: int
    text: str = ""


# by the path relative to the tree's root
Record = dict[str, FileRecord]

# `Path(__file__).resolve()` must stay in the tree, so these are never links.
_PYTHON = (".py", ".pyi", ".pyw")
# Added to, never changed in place; the rest of `.git` is copied, or a plain `git status` of the
# script would rewrite the user's index.
_GIT_STORES = frozenset({"annex", "lfs", "modules", "objects"})


@attrs.frozen(kw_only=True)
class CopyLimits:
    """How much is copied, and how long may be looked for it; the rest is linked.

    :param copy_bytes: the largest file that is copied.
    :param copied_bytes: all copies together, those of Python files aside.
    :param folder_entries: a folder that holds more, at any depth, is linked whole.
    :param entries: of the tree; what comes after is linked whole.
    :param looked_at: entries that are counted to find the large folders.
    :param beside: entries of a folder above the mirrored one; if there are more, none of the
        others is shown.
    """

    copy_bytes: int = 1 << 20
    copied_bytes: int = 128 << 20
    folder_entries: int = 2_000
    entries: int = 5_000
    looked_at: int = 40_000
    beside: int = 2_000


@attrs.frozen
class _Folder:
    path: str
    # whether its subtree may be large
    unknown: bool = True


def tree_for(original: Path, root: Path, limits: CopyLimits | None = None) -> Tree:
    """The tree, not made yet, that shows `original`, an absolute path without symlinks."""
    most = (limits or CopyLimits()).beside
    unshown = (str(above) for above in original.parents if len(_entries(str(above))) > most)
    return Tree(str(root), str(original), frozenset(unshown))


def mirror(
    tree: Tree, *, limits: CopyLimits | None = None, skipped: tuple[str, ...] = ()
) -> Record:
    """Make a tree that shows its folder.

    Folders are real; small files and Python files are copied; large files, large folders, virtual
    environments and hidden folders are links. Whatever cannot be read is left to be found so by
    the script. Folders near the top come first, so a limit that is met is met far down. All the
    folders above are real too, with links to what lies in them.

    :param skipped: absolute paths that are left out, with all below them.
    :return: what was made.
    :raises OSError: if the folder cannot be read or the tree cannot be written.
    """
    with os.scandir(tree.folder):
        pass  # the only folder that must be readable
    made = _Mirroring(tree, limits or CopyLimits(), (*skipped, tree.root))
    os.makedirs(tree.place(tree.folder))
    for above in Path(tree.folder).parents:
        if str(above) not in tree.unshown:
            made.show_beside(str(above))
    made.fill(tree.folder)
    return made.record


@attrs.define
class _Mirroring:
    tree: Tree
    limits: CopyLimits
    skipped: tuple[str, ...]
    record: Record = attrs.field(factory=dict)
    made: int = 0
    copied_bytes: int = 0
    looked_at: int = 0

    def show_beside(self, above: str) -> None:
        """Show what lies in this folder, all but the one that was made there already."""
        for entry in self.entries_of(above):
            with contextlib.suppress(FileExistsError):
                # not looked at: a file system may have to be mounted for it
                self.link(entry.path, self.tree.place(entry.path), look=False)

    def fill(self, original: str) -> None:
        """Show what lies in this folder, which is there and is empty."""
        waiting = deque([_Folder(original)])
        finished = []
        while waiting:
            folder = waiting.popleft()
            finished.append(folder.path)
            for entry in self.entries_of(folder.path):
                below = self.show(folder, entry)
                if below is not None:
                    waiting.append(below)
        for path in reversed(finished):
            with contextlib.suppress(OSError):
                set_status(self.tree.place(path), os.stat(path))

    def entries_of(self, folder: str) -> list[os.DirEntry[str]]:
        return [
            entry
            for entry in _entries(folder)
            if entry.name not in LEFT_OUT and entry.path not in self.skipped
        ]

    def show(self, folder: _Folder, entry: os.DirEntry[str]) -> _Folder | None:
        """Show one entry; the folder if it was made and is still empty."""
        copy = self.tree.place(entry.path)
        self.made += 1
        if entry.is_dir(follow_symlinks=False):
            unknown = self.is_real(folder, entry)
            if unknown is not None:
                os.mkdir(copy)
                return _Folder(entry.path, unknown)
        elif self.is_copied(entry):
            try:
                clone(entry.path, copy)
            except OSError:  # unreadable, or no room
                with contextlib.suppress(FileNotFoundError):
                    os.remove(copy)
            else:
                self.keep(copy)
                return None
        self.link(entry.path, copy)
        return None

    def is_real(self, folder: _Folder, entry: os.DirEntry[str]) -> bool | None:
        """None if the folder is linked whole, else whether its subtree may be large."""
        if self.made > self.limits.entries or entry.name == "node_modules":
            return None
        if entry.name.startswith(".") and entry.name != ".git":
            return None  # environments, caches, and keys, which are not to be copied about
        if os.path.basename(folder.path) == ".git" and entry.name in _GIT_STORES:
            return None
        if os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            return None
        if not os.access(entry.path, os.R_OK | os.X_OK):
            return None
        if not folder.unknown:
            return False
        large, has_python = self.look(entry.path)
        # code with a data folder inside: its folders are looked at one by one
        return None if large and not has_python else large

    def look(self, folder: str) -> tuple[bool, bool]:
        """Whether the subtree is large, and whether it holds Python files near its top."""
        if self.looked_at > self.limits.looked_at:
            return True, False
        has_python = False
        for count, name in enumerate(self.names_below(folder), start=1):
            self.looked_at += 1
            has_python = has_python or name.endswith(_PYTHON)
            if count > self.limits.folder_entries:
                return True, has_python
        return False, has_python

    def names_below(self, folder: str) -> Iterator[str]:
        """The names of everything below a folder, those near its top first."""
        waiting = deque([folder])
        while waiting:
            # one by one, for a folder may hold millions
            with contextlib.suppress(OSError), os.scandir(waiting.popleft()) as entries:
                for entry in entries:
                    if entry.path in self.skipped:
                        continue
                    yield entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)

    def is_copied(self, entry: os.DirEntry[str]) -> bool:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode):
            return False
        if entry.name.endswith(_PYTHON):
            return True
        together = self.copied_bytes + status.st_size
        if status.st_size > self.limits.copy_bytes or together > self.limits.copied_bytes:
            return False
        self.copied_bytes = together
        return self.made <= self.limits.entries

    def link(self, original: str, copy: str, *, look: bool = True) -> None:
        text = self.tree.link_text(original)
        os.symlink(text, copy)
        self.keep(copy, text, look=look)

    def keep(self, copy: str, text: str = "", *, look: bool = True) -> None:
        size, mtime_ns = (file_status(copy) if look else None) or (None, 0)
        self.record[copy[len(self.tree.root) + 1 :]] = FileRecord(size, mtime_ns, text)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What lies in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def file_status(path: str) -> tuple[int, int] | None:
    """Size and mtime_ns of a regular file, through links; None for anything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None
