"""What a script has written: the private tree compared with what was made for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import attrs

from tfopt_core.training.scripts.mirroring import FileRecord, Record, file_status
from tfopt_core.training.scripts.stand_ins import LEFT_OUT, Tree, stands_for

Change = Literal["new", "changed", "removed"]


@attrs.frozen(order=True)
class WrittenFiles:
    """One file that a script wrote, changed or removed.

    :param path: relative to the script's folder, or absolute for what lies elsewhere; a folder
        that was removed whole ends with "/".
    :param bytes: how large it is now, 0 if it was removed.
    """

    path: str
    bytes: int
    change: Change


def written_in(tree: Tree, record: Record) -> Iterator[WrittenFiles]:
    """The changes of a tree, in no particular order, with the original paths.

    :param record: what was made.
    """
    comparison = _FolderComparison(tree, record)
    yield from comparison.below("", was_link=False)
    for path in record.keys() - comparison.seen:
        original = stands_for(record[path].text)
        yield _removed(path, is_folder=original is not None and os.path.isdir(original))


@attrs.define
class _FolderComparison:
    tree: Tree
    record: Record
    seen: set[str] = attrs.field(factory=set)

    def below(self, folder: str, *, was_link: bool) -> Iterator[WrittenFiles]:
        """The changes of one folder of the tree, and of those in it.

        :param was_link: whether it was a stand-in, or in one, when the tree was made.
        """
        names = set()
        for entry in _entries(os.path.join(self.tree.root, folder)):
            names.add(entry.name)
            path = os.path.join(folder, entry.name)
            kept = self.record.get(path)
            if entry.is_dir(follow_symlinks=False):
                if kept is not None and kept.text:
                    self.seen.add(path)
                linked = was_link if kept is None else bool(kept.text)
                yield from self.below(path, was_link=linked)
            else:
                self.seen.add(path)
                change = self.change_of(kept, entry)
                if change is not None:
                    yield WrittenFiles(f"/{path}", (file_status(entry.path) or (0, 0))[0], change)
        for entry in _entries(f"/{folder}") if was_link else ():
            if entry.name not in names:
                is_folder = entry.is_dir(follow_symlinks=False)
                yield _removed(os.path.join(folder, entry.name), is_folder=is_folder)

    def change_of(self, kept: FileRecord | None, entry: os.DirEntry[str]) -> Change | None:
        """How this file or link differs from what was shown here at first."""
        original = self.tree.original(entry.path)
        is_new = kept is None and not os.path.lexists(original)
        if is_new:
            return "new"
        if entry.is_symlink():
            text = kept.text if kept is not None else self.tree.link_text(original)
            return None if os.readlink(entry.path) == text else "changed"
        if kept is not None and not kept.text:
            before = None if kept.size is None else (kept.size, kept.mtime_ns)
        else:
            before = file_status(original)
        return None if file_status(entry.path) == before else "changed"


def changed_originals(record: Record) -> Iterator[str]:
    """The original files behind links that are no longer what they were.

    Whatever writes past Python, such as another program that the script starts, writes through a
    link. So does somebody who works in the folder meanwhile.
    """
    for kept in record.values():
        original = stands_for(kept.text)
        if original is None or kept.size is None:
            continue
        if file_status(original) != (kept.size, kept.mtime_ns):
            yield original


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []


def _removed(path: str, *, is_folder: bool) -> WrittenFiles:
    return WrittenFiles(f"/{path}/" if is_folder else f"/{path}", 0, "removed")
