"""The private folder of a script's run: what the script writes stays there, what it reads is as
in its own folder. So a run finds what the first one found, and the user's files stay as they are.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path

import attrs

from tfopt_core.training.scripts.copy_up import CopyUp
from tfopt_core.training.scripts.file_events import absolute, prepare, unwatched, watch
from tfopt_core.training.scripts.guard import OpenGuard
from tfopt_core.training.scripts.mirroring import CopyLimits, Record, mirror, tree_for
from tfopt_core.training.scripts.native_writers import NativeWriters
from tfopt_core.training.scripts.outside import Outside, system_folders
from tfopt_core.training.scripts.stand_ins import Tree, is_within
from tfopt_core.training.scripts.written import WrittenFiles, changed_originals, written_in


@attrs.define(eq=False)
class PrivateFolder:
    """A folder's private copy, made as far as it is written to.

    Isolated is what Python writes by a path inside, and what HDF5 and TensorFlow write. Not
    isolated: absolute paths to elsewhere, which are noted in `outside`, and whatever other
    programs and libraries write natively into files that were too large to copy.

    :param original: the folder that is shown, resolved.
    :param private: where it is shown, below the folder that `make` was given.
    """

    original: Path
    private: Path
    _tree: Tree
    _workspace: Path
    _record: Record
    _spelled: str
    _outside: Outside
    _entered: ExitStack | None = attrs.field(default=None, init=False)

    @classmethod
    def make(
        cls,
        original: Path,
        private: Path,
        *,
        limits: CopyLimits | None = None,
        unnoted: tuple[str, ...] | None = None,
    ) -> PrivateFolder:
        """Make the private copy of `original` in `private`, which is made too and must be empty.

        :param unnoted: folders outside whose files are nobody's business, those of the system by
            default.
        :raises OSError: if `original` cannot be read or `private` cannot be written.
        """
        private.mkdir(parents=True, exist_ok=True)
        spelled = os.path.abspath(original)
        original, private = original.resolve(), private.resolve()
        workspace = private / "copying"
        workspace.mkdir()
        tree = tree_for(original, private / "files", limits)
        record = mirror(tree, limits=limits, skipped=(str(private),))
        outside = Outside(str(original), system_folders() if unnoted is None else unnoted)
        shown = Path(tree.place(str(original)))
        return cls(original, shown, tree, workspace, record, spelled, outside)

    def enter(self, at: Path | None = None) -> None:
        """Make this process and those that it forks work here, until `leave`.

        :param at: the original folder to start in; by default the whole one.
        :raises RuntimeError: if this process is in a private folder already.
        :raises FileNotFoundError: if there is no such folder in it; nothing is entered then.
        """
        guard = OpenGuard(CopyUp(self._tree, str(self._workspace)), self._outside)
        with ExitStack() as stack:
            watch(guard)
            stack.callback(watch, None)
            stack.enter_context(NativeWriters())
            _resolve_inside(guard.copy_up, stack)
            with suppress(FileNotFoundError):  # what we come from was removed
                stack.callback(_go_back, os.getcwd(), os.environ.get("PWD"))
            folder = str(self.path_of(at) if at else self.private)
            os.chdir(folder)
            # what shells, and scripts that ask the environment, take for the working directory
            os.environ["PWD"] = folder
            self._entered = stack.pop_all()

    def leave(self) -> None:
        """Go back to where `enter` was called, and watch no more."""
        if self._entered is not None:
            self._entered.close()
            self._entered = None

    def path_of(self, original_path: Path) -> Path:
        """Where a file of the original lies in the private folder; itself if it lies elsewhere.

        :param original_path: relative to the original folder, or absolute.
        """
        path = os.path.normpath(os.path.join(self.original, original_path))
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        for spelling, folder in (
            (path, self.original),
            (path, self._spelled),
            (real, self.original),
        ):
            if is_within(spelling, str(folder)):
                return self.private / os.path.relpath(spelling, folder)
        return Path(original_path)

    def in_words(self, text: str) -> str:
        """A message or traceback with the original paths in the place of private ones."""
        pattern = re.escape(self._tree.root) + r"(?![\w-]|\.\w)"
        return re.sub(pattern, "", text)

    def written(self) -> tuple[WrittenFiles, ...]:
        """What differs from when the folder was made, sorted by path."""
        with unwatched():
            found = list(written_in(self._tree, self._record))
        within = f"{self.original}/"
        return tuple(
            sorted(attrs.evolve(item, path=item.path.removeprefix(within)) for item in found)
        )

    def changed_originals(self) -> tuple[str, ...]:
        """The large original files that have changed since, though none should have."""
        with unwatched():
            return tuple(sorted(changed_originals(self._record)))

    @property
    def outside(self) -> tuple[str, ...]:
        """Paths outside that this process has opened for writing, made or removed."""
        return tuple(self._outside.paths)


def _go_back(folder: str, shown: str | None) -> None:
    with suppress(FileNotFoundError):
        os.chdir(folder)
    if shown is None:
        os.environ.pop("PWD", None)
    else:
        os.environ["PWD"] = shown


def _resolve_inside(copy_up: CopyUp, stack: ExitStack) -> None:
    """Have `Path.resolve` stay inside, though a link of ours leads to the original.

    A script that resolves its folder of data or checkpoints would write to the original itself.
    """
    real_path = os.path.realpath

    def realpath(filename: os.PathLike[str] | str, *args: bool, **options: bool) -> str | bytes:
        found = real_path(filename, *args, **options)
        where = absolute(filename)
        if isinstance(found, bytes) or where is None or not copy_up.tree.contains(where):
            return found
        places: list[str] = []
        prepare(lambda guard: places.append(copy_up.seen_place(where)))
        return places[0] if places and copy_up.tree.contains(places[0]) else found

    setattr(os.path, "realpath", realpath)  # noqa: B010
    stack.callback(setattr, os.path, "realpath", real_path)
