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
from tfopt_core.training.scripts.private_folder import (
    Change,
    PrivateFolder,
    entries_of,
    is_folder,
    is_within,
    private_folders,
    removed,
    size_and_time,
    system_folders,
)


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
            yield from _changes(overlay_mount.upper_folder(self.place, number), folder)


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
            if os.path.lexists(below) and not is_folder(below):
                yield removed(below)  # a folder took the place of a file
            yield from _changes(entry.path, below, anew)
        elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield removed(below)
        elif not (is_folder(lower) and os.path.lexists(below)):
            yield below, "new"
        elif is_folder(below):
            yield removed(below)
            yield below, "new"
        elif size_and_time(entry.path) != size_and_time(below):
            yield below, "changed"
    if anew and is_folder(lower):
        yield from (removed(entry.path) for entry in entries_of(lower) if entry.name not in seen)


def _is_made_anew(upper: str) -> bool:
    """Return whether the lower folder was removed and made again."""
    try:
        return os.getxattr(upper, "user.overlay.opaque") == b"y"
    except OSError:
        return False
