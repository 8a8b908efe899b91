"""Stand-ins: symlinks of ours in a private tree, for files and folders that were not copied."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import attrs

# From <linux/fs.h>: share the blocks of a file until one side writes.
FICLONE = 0x40049409
# Never in a private tree: the runs of tfopt themselves, and what Python makes anew.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})

# How a stand-in is told from the script's own symlinks: by how its target is spelled. That stays
# with the link when it is renamed, and every process can read it.
_MARK = "/."  # "/./home/me/data" stands for "/home/me/data"


def stand_in_of(place: str) -> str | None:
    """The original path that the link at this place stands for; None if it is no link of ours."""
    try:
        return stands_for(os.readlink(place))
    except OSError:
        return None


def stands_for(text: str) -> str | None:
    """The original path that a link with this text stands for; None if it is not one of ours."""
    return text[len(_MARK) :] if text.startswith(f"{_MARK}/") else None


def is_within(path: str, folder: str) -> bool:
    """Whether a path is this folder or lies below it, by its letters."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@attrs.frozen
class Tree:
    """A folder that shows the whole file system, its root being "/".

    So a path that begins with `..`, and a symlink to anywhere, lead to what they lead to without
    tfopt, and what is written there is private as well.

    :param root: absolute and without symlinks.
    :param folder: what it was made for, an original path without symlinks.
    :param unshown: folders above that one in which so much lies that nothing else is shown.
    """

    root: str
    folder: str = "/"
    unshown: frozenset[str] = frozenset()

    def place(self, path: str) -> str:
        """Where an original path is shown."""
        return self.root + path.rstrip("/")

    def original(self, place: str) -> str:
        """What is shown at this place of the tree."""
        return place[len(self.root) :] or "/"

    def contains(self, path: str) -> bool:
        """Whether an absolute path is a place of the tree."""
        return is_within(path, self.root)

    def link_text(self, path: str) -> str:
        """The text of the link that shows this original path: a stand-in, or a symlink as it is."""
        try:
            text = os.readlink(path)
        except OSError:
            return _MARK + path
        target = os.path.normpath(os.path.join(os.path.dirname(path), text))
        if self.unshown and os.path.commonpath([target, self.folder]) in self.unshown:
            return _MARK + target
        return self.place(text) if os.path.isabs(text) else text


def clone(source: str | Path, copy: str | Path) -> None:
    """Copy a file with its mode and times, sharing its blocks where the file system can.

    :raises OSError: if the source cannot be read or the copy cannot be written.
    """
    with open(source, "rb") as origin, open(copy, "xb") as target:
        try:
            fcntl.ioctl(target.fileno(), FICLONE, origin.fileno())
        except OSError:
            shutil.copyfileobj(origin, target, 1 << 20)
        status = os.fstat(origin.fileno())
    set_status(copy, status)


def set_status(path: str | Path, status: os.stat_result) -> None:
    """Give a file or folder the mode and times of another; a folder can always be written."""
    more = 0o700 if os.path.isdir(path) else 0
    os.chmod(path, status.st_mode & 0o7777 | more)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
