"""The guard of a private tree: what must be made ready before each kind of write."""

from __future__ import annotations

import os
from urllib.parse import unquote

import attrs

from tfopt_core.training.scripts.copy_up import CopyUp, real_path
from tfopt_core.training.scripts.outside import Outside
from tfopt_core.training.scripts.stand_ins import stand_in_of

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_TEMPORARY = os.O_TMPFILE & ~os.O_DIRECTORY
# SQLite's own files, which lie beside the database.
_BESIDE_DATABASE = ("", "-journal", "-wal", "-shm")


@attrs.define(eq=False)
class OpenGuard:
    """Called with absolute paths before something happens to them.

    Every method may raise `CannotCopy`: then it must not happen, or the original would change.

    :param walking: whether the script has walked through its folders: links are not walked
        through, so from then on folders are made real as they are listed.
    """

    copy_up: CopyUp
    outside: Outside
    walking: bool = False

    def opening(self, path: str, flags: int, *, by_descriptor: bool = False) -> None:
        """A file is about to be opened, or a folder to be used by its descriptor."""
        if not flags & _WRITES:
            if by_descriptor and os.path.isdir(path):
                self.using_folder(path)
            elif "/../" in path:
                self.copy_up.settle_upwards(path)
            return
        place, original = self._look(path)
        if original is None:
            return
        if os.path.isdir(original):
            if flags & _TEMPORARY:
                self.copy_up.make_folder(place)
        elif flags & os.O_EXCL and flags & os.O_CREAT:
            return  # fails, as it would without tfopt
        elif os.access(original, os.W_OK):  # else fails too
            self.copy_up.make_file(place, empty=bool(flags & os.O_TRUNC))

    def changing(self, path: str) -> None:
        """A file or folder is about to get another mode, time, owner, attribute or length."""
        place, original = self._look(path)
        if original is not None:
            self.copy_up.make_folder(place)
            self.copy_up.make_file(place)

    def using_folder(self, path: str) -> None:
        """A folder is about to be the working directory, or to be written in by other means."""
        place = self.copy_up.place(path)
        if self._stand_in(place) is not None:
            self.copy_up.make_folder(place)

    def making_folder(self, path: str) -> None:
        """A folder is about to be made, or to be found there and then written in."""
        self._look_at_entry(path)

    def removing(self, path: str) -> None:
        """A file, link or folder is about to be removed."""
        self._look_at_entry(path)

    def removing_tree(self, path: str) -> None:
        """A folder with all that is in it is about to be removed, links in it as links."""
        place = self._look_at_entry(path)
        if self._stand_in(place) is not None:
            self.copy_up.make_file(place)  # fails as with a file, not as with a link
        elif self.copy_up.tree.contains(place) and not os.path.islink(place):
            self.copy_up.make_empty_folders(place)

    def removing_through_links(self, path: str) -> None:
        """A folder is about to be removed as TensorFlow does it, which looks through links."""
        place, _ = self._look(path)
        if self.copy_up.tree.contains(place):
            self.copy_up.make_empty_folders(place)

    def renaming(self, path: str, other: str) -> None:
        """Something is about to be renamed, over something else perhaps."""
        source, target = self._look_at_entry(path), self._look_at_entry(other)
        if self._stand_in(source) is not None and not self.copy_up.tree.contains(target):
            self.copy_up.make_file(source)  # a link of ours is worth nothing there

    def linking(self, path: str, other: str) -> None:
        """A file is about to get a second name."""
        source = self._look_at_entry(path)
        self._look_at_entry(other)
        if self._stand_in(source) is not None:
            self.copy_up.make_file(source)

    def symlinking(self, path: str) -> None:
        """A symlink is about to be made here."""
        self._look_at_entry(path)

    def opening_database(self, path: str) -> None:
        """SQLite is about to open this, to write to it for all we know."""
        for ending in _BESIDE_DATABASE:
            if not ending or os.path.lexists(path + ending):
                self.opening(path + ending, os.O_RDWR | os.O_CREAT)

    def starting_to_walk(self, path: str) -> None:
        """The folders below this one are about to be walked through."""
        self.walking = self.walking or self.copy_up.tree.contains(self.copy_up.seen_place(path))

    def listing(self, path: str) -> None:
        """A folder is about to be listed."""
        if not self.walking:
            return
        self.copy_up.settle_upwards(path)
        place = real_path(path)
        if not self.copy_up.tree.contains(place):
            return
        with os.scandir(place) as entries:
            linked = [entry.path for entry in entries if entry.is_symlink()]
        for below in linked:
            original = stand_in_of(below)
            if original is not None and os.path.isdir(original):
                self.copy_up.make_folder(below)

    def _look(self, path: str, *, follow: bool = True) -> tuple[str, str | None]:
        """The place where a write would happen, and what it stands for; notes one outside."""
        place = self.copy_up.place(path, follow=follow)
        if not self.copy_up.tree.contains(place):
            self.outside.note(place)
        return place, self._stand_in(place)

    def _look_at_entry(self, path: str) -> str:
        """The place of an entry that is made, moved or removed, not what it leads to.

        A folder is removed and renamed by other rules than a link, so it must be one.
        """
        place, original = self._look(path, follow=False)
        if original is not None:
            self.copy_up.make_folder(place)
        return place

    def _stand_in(self, place: str) -> str | None:
        return stand_in_of(place) if self.copy_up.tree.contains(place) else None


def database_path(database: str) -> str | None:
    """The file that `sqlite3.connect` opens for writing by this name; None if there is none."""
    if database in ("", ":memory:"):
        return None
    if not database.startswith("file:"):
        return database
    path, _, query = database.removeprefix("file:").partition("?")
    settings = query.split("&")
    if {"mode=ro", "mode=memory", "immutable=1"} & set(settings) or path in ("", ":memory:"):
        return None
    return unquote(path.removeprefix("//") if path.startswith("///") else path)
