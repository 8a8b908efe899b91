"""The private folder of a script's run: its writes stay apart from the user's files.

So every run begins with the same files. It is an overlay mount, in which the kernel keeps apart all
writes, native ones too; `copied_folder` is for machines that mount none.
"""

from __future__ import annotations

import abc
import functools
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.scripts.folders import overlay_mount

Change = Literal["new", "changed", "removed"]

# The name of a private folder, in the folder of its run.
PRIVATE = "work"
# Files of tfopt and Python, which do not count as written by a script.
LEFT_OUT = frozenset({".tfopt", "__pycache__"})


@attrs.frozen
class PrivateFolder(abc.ABC):
    """A private folder, made before the process of its run starts.

    :param original: the folder in which the script runs, a real path.
    :param folders: the folders whose writes stay apart, real paths; see `private_folders`.
    :param place: a folder, empty or missing, for what is written to them.
    """

    original: Path
    folders: tuple[str, ...]
    place: str

    def command(self) -> list[str]:
        """Return the command behind which the program of the run starts; empty for none."""
        return []

    @abc.abstractmethod
    def mount(self) -> None:
        """Mount what there is to mount in this process, which has one thread.

        :raises OSError: if the kernel, or a rule of this machine, refuses it.
        """

    def path_of(self, path: Path) -> Path:
        """Return the path at which the script finds a file."""
        return path

    def in_words(self, text: str) -> str:
        """Return a message or traceback with the user's own paths."""
        return text

    def written(self) -> tuple[str, ...]:
        """Return what the run has written, as sorted texts: "log.txt (new)".

        Paths in the script's folder are relative to it. Call it in tfopt's own process.
        """
        within = f"{self.original}/"
        return tuple(
            sorted(f"{path.removeprefix(within)} ({how})" for path, how in self._changes())
        )

    @abc.abstractmethod
    def _changes(self) -> Iterator[tuple[str, Change]]:
        """Yield each path that was changed, with a "/" at its end for a whole folder."""


def private_folders(folder: Path) -> tuple[str, ...]:
    """Return the real paths of the folders that are private in a script's run.

    They are the folder that it runs in (a real path), or the Git checkout that this is part of, and
    folders of this user that symlinks in it lead to.
    """
    top = str(next((up for up in (folder, *folder.parents) if (up / ".git").exists()), folder))
    linked = {
        os.path.realpath(entry.path)
        for entry in os.scandir(folder)
        # (`DirEntry.is_dir` raises for a circle)
        if entry.is_symlink() and os.path.isdir(entry.path) and entry.stat().st_uid == os.geteuid()
    }
    found = [top]
    for path in sorted(linked):
        if not any(is_within(path, one) or is_within(one, path) for one in found):
            found.append(path)
    return tuple(found)


def system_folders() -> tuple[str, ...]:
    """Return the folders in which programs write for themselves: temporary ones, caches."""
    home = os.path.expanduser("~")
    named = [
        os.environ.get(variable)
        for variable in ("KERAS_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    ]
    caches = [f"{home}/{name}" for name in (".cache", ".config", ".keras", ".nv")]
    folders = [tempfile.gettempdir(), "/dev", "/proc", "/sys", "/run", sys.prefix, *caches, *named]
    return tuple({os.path.realpath(folder) for folder in folders if folder})


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies below it; only the texts are compared."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_folder(path: str) -> bool:
    """Return whether a path is a folder, and no symlink."""
    return os.path.isdir(path) and not os.path.islink(path)


def is_unchanged(copy: str, path: str) -> bool:
    """Return whether two files are the same: a write changes the number of bytes or the time."""
    one, other = os.lstat(copy), os.lstat(path)
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def removed(path: str) -> tuple[str, Change]:
    """Return that a file or a whole folder was removed."""
    return f"{path}/" if is_folder(path) else path, "removed"


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder without those of tfopt and Python; none if unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name not in LEFT_OUT]
    except OSError:
        return []


def move_log_folders(callbacks: Iterable[Any], private: PrivateFolder) -> None:
    """Have each TensorBoard log at the private folder's path of its `log_dir`.

    TensorFlow's own code writes there, which neither a copied folder nor its watch sees. Callbacks
    that write by Python are left alone: the script may read their files, and such writes are noted.
    """
    import keras

    for callback in callbacks:
        if isinstance(callback, keras.callbacks.TensorBoard):
            callback.log_dir = str(private.path_of(Path(callback.log_dir)))


@attrs.frozen
class OverlayMounts(PrivateFolder):
    """The mounts for a run; `folders` have an overlay each.

    :param through: folders inside of them without an overlay: those of tfopt, and caches.
    """

    through: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, place: Path, results: Path) -> OverlayMounts:
        """Return the mounts for a script that runs in this folder, a real path.

        The private folders get an overlay, and so do the disks mounted inside of them.

        :param results: where tfopt's own processes write.
        """
        import psutil

        own, private = os.path.realpath(results), private_folders(folder)
        mounted = {part.mountpoint for part in psutil.disk_partitions(all=True)}
        inside = sorted(path for path in mounted if _is_below(path, private))
        folders = tuple(path for path in (*private, *inside) if not is_within(path, own))
        through = (own, *(path for path in system_folders() if os.path.isdir(path)))
        passed = tuple(path for path in through if _is_below(path, folders))
        return cls(folder, folders, str(place), passed)

    def command(self) -> list[str]:
        mounts = attrs.asdict(self, filter=attrs.filters.exclude("original"))
        return [sys.executable, "-I", "-S", overlay_mount.__file__, json.dumps(mounts)]

    def mount(self) -> None:
        overlay_mount.mount_overlays(self.folders, self.place, self.through)

    def _changes(self) -> Iterator[tuple[str, Change]]:
        for number, folder in enumerate(self.folders):
            yield from changes(overlay_mount.upper_folder(self.place, number), folder)


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path != folder and is_within(path, folder) for folder in folders)


@functools.cache
def why_no_overlay(folder: Path, results: Path) -> str | None:
    """Return why this machine cannot mount an overlay for this folder; None if it can.

    :param results: where tfopt's own processes write.
    """
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix="overlay-") as place:
        command = OverlayMounts.of(folder, Path(place), results).command()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return None if done.returncode == 0 else lines[-1]


def changes(
    upper: str, lower: str, same: Callable[[str, str], bool] = is_unchanged, *, anew: bool = False
) -> Iterator[tuple[str, Change]]:
    """Yield each path of the lower folder that the upper one replaces or removes.

    Marks of removed files: https://docs.kernel.org/filesystems/overlayfs.html.

    :param same: whether an entry of the upper folder, no folder itself, is as the one below.
    :param anew: whether the upper folder holds all that is left: the rest was removed, and has no
        mark.
    """
    seen, anew = set(), anew or _is_made_anew(upper)
    for entry in entries_of(upper):
        seen.add(entry.name)
        below, status = f"{lower}/{entry.name}", entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            if os.path.lexists(below) and not is_folder(below):
                yield removed(below)  # a folder took the place of a file
            yield from changes(entry.path, below, same, anew=anew)
        elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield removed(below)
        elif not (is_folder(lower) and os.path.lexists(below)):
            yield below, "new"
        elif not same(entry.path, below):
            if is_folder(below):
                yield removed(below)
            yield below, "new" if is_folder(below) else "changed"
    if anew and is_folder(lower):
        yield from (removed(entry.path) for entry in entries_of(lower) if entry.name not in seen)


def _is_made_anew(upper: str) -> bool:
    """Return whether the lower folder was removed and made again."""
    try:
        return os.getxattr(upper, "user.overlay.opaque") == b"y"
    except OSError:
        return False
