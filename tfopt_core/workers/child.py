"""The program of a worker process: reads one task, calls its function, sends one last message."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.workers.supervise import DUMP_SIGNAL
from tfopt_core.workers.task import CannotMount, Parent, RunTask, failure_of, receive_task

# A workload may write to low descriptors by mistake (it closed and reused one, say): the channel
# has a high number.
CHANNEL_DESCRIPTOR = 200
# The highest value of Linux' oom_score_adj.
MOST_EXPENDABLE = 1000
# The modules of the distributions that tfopt requires (pyproject.toml).
LIBRARIES = frozenset({
    "attr", "attrs", "cattr", "cattrs", "click", "keras", "numpy", "pluggy", "psutil", "rich",
    "rich_click", "scipy", "tensorflow", "tomlkit",
})  # fmt: skip


def main(descriptor: int, *, forked: bool = False) -> int:
    """Serve the process that holds the other end of this socket. Return the exit status.

    :param forked: whether this is a fork, which mounts the overlay of a private folder itself.
    """
    # closed on exec: processes that the workload starts must not send messages
    private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, CHANNEL_DESCRIPTOR)
    os.close(descriptor)
    channel = socket.socket(fileno=private)
    faulthandler.enable()
    faulthandler.register(DUMP_SIGNAL, all_threads=True)  # shows where it hangs
    parent = Parent(channel)
    pin_libraries()
    try:
        task = receive_task(channel)
    except EOFError:
        return 1
    except (Exception, SystemExit) as error:  # unpickling imports the plugins
        parent(failure_of(error))
        return 1
    if forked and task.private is not None:
        try:
            task.private.mount()
        except OSError:
            parent(CannotMount())
            return 1
    if isinstance(task, RunTask) and task.expendable:
        # the kernel ends this process before others where memory runs out
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(MOST_EXPENDABLE), encoding="ascii")
    try:
        parent(resolve_name(task.function)(task, parent))
    except KeyboardInterrupt:
        return 130
    except (Exception, SystemExit) as error:
        # an expected error needs no traceback
        if task.debug or not isinstance(error, TfoptError):
            traceback.print_exc()
        parent(failure_of(error))
    if task.measured:
        # Python's last search for cycles takes a second once Keras is imported. Whatever is not
        # in a cycle still ends in order; a training of the user's own ends as ever.
        gc.freeze()
    return 0


@attrs.frozen(eq=False)
class InstalledLibraries(MetaPathFinder):
    """Finds these libraries on a given import path, and nothing else.

    :param path: the import path without the folders of the user's code.
    """

    path: tuple[str, ...]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a library is installed, None for any other module."""
        if name not in LIBRARIES:
            return None
        return PathFinder.find_spec(name, self.path, target)


def pin_libraries() -> None:
    """Import these libraries from the present import path, even after it changes.

    A run's process has the folder of its script or workload first on its import path, as in Python.
    A file there must not replace a library that tfopt imports later on.
    """
    sys.meta_path.insert(0, InstalledLibraries(tuple(sys.path)))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
