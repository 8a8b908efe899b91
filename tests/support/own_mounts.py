"""Small and read-only disks: real mounts, in a fork whose mounts nobody else sees."""

import ctypes
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# From <linux/sched.h> and <linux/mount.h>.
CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
# Generous: a fork that takes longer hangs.
LIMIT_SECONDS = 120.0

_libc = ctypes.CDLL(None, use_errno=True)


class NotAllowed(Exception):
    """This machine lets tests mount nothing."""


def with_own_mounts(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a fork that may mount disks. Skip the test if none may."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            return pool.apply_async(_mounting, (function, *arguments)).get(LIMIT_SECONDS)
        except NotAllowed as error:
            pytest.skip(f"no disk may be mounted here: {error}")


def _mounting(function: Callable[..., Any], *arguments: Any) -> Any:
    _unshare()
    return function(*arguments)


def mount_small(folder: Path, size: int) -> Path:
    """Mount an empty disk of so many bytes at a folder, which is made, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("none", folder, "tmpfs", 0, f"size={size}")
    return folder


def fill(folder: Path) -> None:
    """Leave no room on the disk of a folder."""
    with open(folder / "filler", "wb", buffering=0) as file:
        for piece in (2**16, 2**12, 1):
            try:
                while file.write(bytes(piece)) == piece:
                    pass
            except OSError:
                continue


def mount_read_only(folder: Path) -> Path:
    """Mount a folder over itself so that nobody may write to it, and return the folder."""
    _mount(str(folder), folder, "", MS_BIND, "")
    _mount("none", folder, "", MS_REMOUNT | MS_BIND | MS_RDONLY, "")
    return folder


def _unshare() -> None:
    """Give this process mounts of its own, as a user who is root within them.

    :raises NotAllowed: if the system does not let it.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)):
        raise NotAllowed(os.strerror(ctypes.get_errno()))
    try:
        if user:
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
        _mount("none", Path("/"), "", MS_REC | MS_PRIVATE, "")
    except OSError as error:
        raise NotAllowed(error.strerror or str(error)) from error


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    """Mount, as mount(2) does.

    :raises NotAllowed: if the system does not let this process mount.
    """
    texts = [text.encode() if text else None for text in (source, str(target), kind)]
    if _libc.mount(*texts, ctypes.c_ulong(flags), options.encode() if options else None):
        raise NotAllowed(os.strerror(ctypes.get_errno()))
