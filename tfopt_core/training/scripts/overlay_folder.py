"""A private folder as an overlay mount: the kernel keeps all writes apart, native ones too."""

from __future__ import annotations

import functools
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from tfopt_core.training.scripts import overlay_mount
from tfopt_core.training.scripts.private_folder import Change, describe_changes, entries_of
from tfopt_core.training.scripts.write_watch import is_within, system_folders


@attrs.frozen
class OverlayMounts:
    """The mounts for a run, made before its process starts.

    :param original: the folder in which the script runs, a real path.
    :param folders: the folders with an overlay, real paths.
    :param place: a folder, empty or missing, for what is written to them.
    :param through: folders inside of them without an overlay: those of tfopt, and caches.
    """

    original: Path
    folders: tuple[str, ...]
    place: str
    through: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, place: Path, results: Path) -> OverlayMounts:
        """Return the mounts for a script that runs in this folder.

        The folder, or the Git checkout that it is part of, gets an overlay, and so do the mounts
        inside it and the folders of this user that symlinks in it lead to.

        :param results: where tfopt's own processes write.
        """
        import psutil

        top = str(next((up for up in (folder, *folder.parents) if (up / ".git").exists()), folder))
        own = os.path.realpath(results)
        mounted = [part.mountpoint for part in psutil.disk_partitions(all=True)]
        inside = [path for path in mounted if path != top and is_within(path, top)]
        linked = [
            os.path.realpath(entry.path)
            for entry in os.scandir(folder)
            if entry.is_symlink() and entry.is_dir() and entry.stat().st_uid == os.geteuid()
        ]
        beside = [path for path in linked if not is_within(path, top) and not is_within(top, path)]
        folders = (top, *sorted(path for path in {*inside, *beside} if not is_within(path, own)))
        through = (own, *(path for path in system_folders() if os.path.isdir(path)))
        passed = tuple(path for path in through if _is_below(path, folders))
        return cls(folder, folders, str(place), passed)

    def command(self) -> list[str]:
        """Return the command that mounts them; append the program to run with the mounts."""
        mounts = attrs.asdict(self, filter=attrs.filters.exclude("original"))
        return [sys.executable, "-I", "-S", overlay_mount.__file__, json.dumps(mounts)]

    def mount(self) -> None:
        """Mount them in a new namespace of this process, which has one thread.

        :raises OSError: if the kernel, or a rule of this machine, refuses it.
        """
        overlay_mount.mount_overlays(self.folders, self.place, self.through)

    def written(self) -> tuple[str, ...]:
        """Return what the run has written; call it in a process without the mounts."""
        return describe_changes(
            self.original,
            (
                change
                for number, folder in enumerate(self.folders)
                for change in _changes(overlay_mount.upper_folder(self.place, number), folder)
            ),
        )


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path != folder and is_within(path, folder) for folder in folders)


@functools.cache
def why_no_overlay(folder: Path, results: Path) -> str | None:
    """Return why this machine cannot mount an overlay for this folder; None if it can.

    :param results: where tfopt's own processes write.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux has them"
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix="overlay-") as place:
        command = OverlayMounts.of(folder, Path(place), results).command()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return None if done.returncode == 0 else lines[-1]


def _changes(upper: str, lower: str, anew: bool = False) -> Iterator[tuple[str, Change]]:
    """Yield each path of the lower folder that the overlay replaces or removes.

    Marks of removed files: https://docs.kernel.org/filesystems/overlayfs.html.

    :param anew: whether a folder above was made anew: those in it have no mark of their own.
    """
    seen, anew = set(), anew or _is_made_anew(upper)
    for entry in entries_of(upper):
        seen.add(entry.name)
        below, status = f"{lower}/{entry.name}", entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            if os.path.lexists(below) and not _is_folder(below):
                yield _removed(below)  # a folder took the place of a file
            yield from _changes(entry.path, below, anew)
        elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield _removed(below)
        elif not (_is_folder(lower) and os.path.lexists(below)):
            yield below, "new"
        elif _is_folder(below):
            yield _removed(below)
            yield below, "new"
        elif _status(entry.path) != _status(below):
            yield below, "changed"
    if anew and _is_folder(lower):
        yield from (_removed(entry.path) for entry in entries_of(lower) if entry.name not in seen)


def _is_made_anew(upper: str) -> bool:
    """Return whether the lower folder was removed and made again."""
    try:
        return os.getxattr(upper, "user.overlay.opaque") == b"y"
    except OSError:
        return False


def _removed(path: str) -> tuple[str, Change]:
    return f"{path}/" if _is_folder(path) else path, "removed"


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _status(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_size, status.st_mtime_ns
