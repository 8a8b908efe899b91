"""Copy-up: a stand-in becomes a file or folder of its own just before something writes to it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Iterator

import attrs

from tfopt_core.training.scripts.stand_ins import (
    LEFT_OUT,
    Tree,
    clone,
    set_status,
    stand_in_of,
    stands_for,
)

# As many as Linux follows in one path.
_MOST_LINKS = 40
# From <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

_numbers = itertools.count()
_threads = threading.RLock()


def _fresh_lock() -> None:
    # the thread that held it, if any, does not exist in a forked process
    global _threads
    _threads = threading.RLock()


os.register_at_fork(after_in_child=_fresh_lock)

# As it is without tfopt: `PrivateFolder.enter` replaces it.
real_path = os.path.realpath


class CannotCopy(Exception):
    """A stand-in cannot be replaced by a copy, so what would write through it must not go on.

    :param cause: what the writer shall meet.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@attrs.frozen
class CopyUp:
    """A tree in which stand-ins are replaced by what they stand for.

    :param workspace: an empty folder beside the tree; what is being copied lies there.
    """

    tree: Tree
    workspace: str

    def place(self, path: str, *, follow: bool = True) -> str:
        """Where an absolute path really leads, with stand-ins for folders on the way made real.

        A stand-in at the end stays as it is and is the place; other symlinks are followed.

        :param follow: whether a symlink at the end is followed too.
        :raises CannotCopy: if a folder cannot be made real.
        """
        return self._walk(path, follow, made_real=bool)

    def seen_place(self, path: str) -> str:
        """The real path of the file that a script means by this path, nothing changed.

        As `os.path.realpath`, but a stand-in counts as the file or folder that it stands for.
        """
        return self._walk(path, True, made_real=lambda waiting: False)

    def settle_upwards(self, path: str) -> None:
        """Have `..` in a path lead to the folder that it leads to without tfopt.

        Up from a stand-in the system goes to the folder of the original.

        :raises CannotCopy: if a folder cannot be made real.
        """
        self._walk(path, True, made_real=lambda waiting: ".." in waiting)

    def _walk(self, path: str, follow: bool, made_real: Callable[[list[str]], bool]) -> str:
        """Follow a path as the system does, but not through stand-ins.

        :param made_real: whether a stand-in is to be made real, by the parts of the path that
            come after it, the last one first.
        """
        waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        place, links = "", 0
        while waiting:
            name = waiting.pop()
            if name == "..":
                place = os.path.dirname(place)
                continue
            place = f"{place.rstrip('/')}/{name}"
            text = self._link(place, waiting[-1] if made_real(waiting) else None)
            if text is None or links == _MOST_LINKS or not (follow or waiting):
                continue
            links += 1
            place = "" if os.path.isabs(text) else os.path.dirname(place)
            waiting += [part for part in reversed(text.split("/")) if part not in ("", ".")]
        return place or "/"

    def _link(self, place: str, needed: str | None) -> str | None:
        """The text to follow, None where there is none.

        :param needed: the entry for which a stand-in is made a folder; None to leave it.
        """
        text = self._text(place)
        if text is None or not self.tree.contains(place):
            return text
        original = stands_for(text)
        if original is not None:
            if needed is not None and os.path.isdir(original):
                self.make_folder(place, needed)
            return None
        source = real_path(os.path.dirname(place))
        if self.tree.contains(source):
            return text
        # seen through a stand-in: as the tree would show it
        return self.tree.link_text(f"{source}/{os.path.basename(place)}")

    @staticmethod
    def _text(place: str) -> str | None:
        try:
            return os.readlink(place)
        except OSError:
            return None

    def make_folder(self, place: str, needed: str | None = None) -> None:
        """Replace a stand-in by a folder with a link to each entry of the original one.

        :param needed: an entry that may be there in a folder that cannot be listed.
        :raises CannotCopy: if that fails.
        """
        with self._alone(place) as original:
            if original is None or not os.path.isdir(original):
                return
            folder = self._unused()
            os.mkdir(folder)
            for name in self._names_in(original, needed):
                os.symlink(self.tree.link_text(f"{original}/{name}"), f"{folder}/{name}")
            set_status(folder, os.stat(original))
            if _exchange(folder, place):
                os.unlink(folder)
            else:
                os.unlink(place)
                os.rename(folder, place)

    @staticmethod
    def _names_in(original: str, needed: str | None) -> list[str]:
        try:
            return [name for name in os.listdir(original) if name not in LEFT_OUT]
        except PermissionError:
            if needed is None or not os.path.lexists(f"{original}/{needed}"):
                raise
            return [needed]

    def make_file(self, place: str, *, empty: bool = False) -> None:
        """Replace a stand-in for a regular file by a copy; a fifo or device stays what it is.

        :param empty: whether what it held is lost at once anyway.
        :raises CannotCopy: if that fails.
        """
        with self._alone(place) as original:
            if original is None or not os.path.isfile(original):
                return
            copy = self._unused()
            try:
                if empty:
                    open(copy, "xb").close()
                    set_status(copy, os.stat(original))
                else:
                    clone(original, copy)
                os.rename(copy, place)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(copy)
                raise

    def make_empty_folders(self, place: str) -> None:
        """Have no stand-in for a folder here or below, since all of it is about to be removed.

        :raises CannotCopy: if that fails.
        """
        self.make_folder(place)
        for folder, names, _ in os.walk(place):
            for name in names:
                below = f"{folder}/{name}"
                if stand_in_of(below) is not None:
                    os.unlink(below)
                    os.mkdir(below)

    @contextlib.contextmanager
    def _alone(self, place: str) -> Iterator[str | None]:
        """What this place stands for, while no other thread or process replaces it."""
        try:
            with _threads:
                descriptor = os.open(self.workspace, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    # some network file systems cannot lock a folder
                    with contextlib.suppress(OSError):
                        fcntl.flock(descriptor, fcntl.LOCK_EX)
                    yield stand_in_of(place)
                finally:
                    # a process forked meanwhile has the descriptor too: closing does not unlock
                    with contextlib.suppress(OSError):
                        fcntl.flock(descriptor, fcntl.LOCK_UN)
                    os.close(descriptor)
        except OSError as error:
            raise CannotCopy(OSError(error.errno, error.strerror, place)) from error

    def _unused(self) -> str:
        return f"{self.workspace}/{os.getpid()}-{next(_numbers)}"


def _exchange(one: str, other: str) -> bool:
    """Let two paths change places at once, so that a reader always finds one of both."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
