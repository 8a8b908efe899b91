"""The program that mounts overlays for a run, and then becomes the run's own program.

    python -I -S overlay_mount.py MOUNTS [PROGRAM...]

MOUNTS is JSON: "folders" get an overlay; "place" is an empty folder for what is written to them,
hidden from the program; "through" are folders inside of "folders" that stay as they are. The mounts
belong to a namespace of this process and its children, and end with them. Without PROGRAM it only
tests the mounts. It imports the standard library only, and has one thread: Linux gives no user
namespace to a process with more.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Sequence

# From <linux/sched.h> and <linux/mount.h>.
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


def main(arguments: list[str]) -> int:
    """Run the program with the mounts. Return 1, with the reason on standard error, on failure."""
    mounts, program = json.loads(arguments[0]), arguments[1:]
    try:
        mount_overlays(**mounts)
        if not program:
            for folder in mounts["folders"]:
                _try_out(folder)
    except OSError as error:
        print(*filter(None, (error.strerror, error.filename)), sep=": ", file=sys.stderr)
        return 1
    if program:
        os.execv(program[0], program)
    return 0


def upper_folder(place: str, number: int) -> str:
    """Return where the kernel puts what is written to the folder with this number."""
    return f"{place}/upper-{number}"


def mount_overlays(folders: Sequence[str], place: str, through: Sequence[str]) -> None:
    """Mount each overlay in a new namespace of this process.

    :raises OSError: if the kernel, or a rule of this machine, refuses it.
    """
    _enter_namespace()
    _mount("none", "/", MS_REC | MS_PRIVATE)
    # by descriptors: once a folder is overlaid, paths lead into the overlay
    nothing = _made(f"{place}/nothing")
    passed = [(_opened(path), path) for path in through]
    opened = [
        (folder, _opened(folder), _made(upper_folder(place, n)), _made(f"{place}/scratch-{n}"))
        for n, folder in enumerate(folders)
    ]
    for folder, lower, upper, scratch in opened:
        options = f"userxattr,lowerdir={lower},upperdir={upper},workdir={scratch}"
        _mount("overlay", folder, kind="overlay", options=options)
        # the kernel's folder in it has no permissions, and its owner must be able to remove it
        os.chmod(f"{scratch}/work", 0o700)
    for original, path in passed:
        _mount(original, path, MS_BIND | MS_REC)
    _mount(nothing, place, MS_BIND)  # else a script that collects files finds them twice
    with contextlib.suppress(FileNotFoundError):
        os.chdir(os.getcwd())


def _enter_namespace() -> None:
    """Enter a mount namespace; an ordinary user also needs a user namespace, with equal ids."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "a user namespace")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _opened(path: str) -> str:
    """Return a path of this folder that stays valid under a mount, and has no comma."""
    return f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_CLOEXEC)}"


def _made(path: str) -> str:
    """Make a folder. Return its path as `_opened` does."""
    os.makedirs(path)
    return _opened(path)


def _mount(source: str, target: str, flags: int = 0, kind: str = "", options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [os.fsencode(text) if text else None for text in (source, target, kind)]
    status = libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(options) or None)
    _check(status, f'mounting on "{target}"')


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _try_out(folder: str) -> None:
    """Write and remove a file.

    :raises OSError: if that fails, or would fail for an existing file: the kernel copies no file of
        a user or group that the namespace does not know.
    """
    path = f"{folder}/.tfopt-{os.getpid()}"
    open(path, "xb").close()
    os.remove(path)
    with open("/proc/self/uid_map", encoding="ascii") as file:
        if int(file.read().split()[2]) > 1:
            return  # all users are known
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                raise OSError(0, f'"{entry.path}" is of another user or group')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
