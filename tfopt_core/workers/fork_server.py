"""The program of a fork server: imports TensorFlow, touches no device, and forks on request."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import warnings
from typing import NoReturn

from tfopt_core.workers.reaper import become_subreaper, keep, tell

# The modules that every run needs. None of them may run a TensorFlow operation or open a device:
# the forks would hang.
PRELOADED = (
    "tensorflow",
    "keras",
    "cattrs",
    "tfopt_core.workers.child",
    "tfopt_core.trials.dry_build",
    "tfopt_core.trials.replay",
    "tfopt_core.trials.run",
)
# The channel of a fork, its output, its errors, and the control of what keeps it.
_DESCRIPTORS = 4


def serve(control: socket.socket) -> int:
    """Fork a process for each request until the other end is closed. Return the exit code."""
    for name in PRELOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    tell(control, ready=True)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 16, _DESCRIPTORS)
        if not data:
            return 0
        if _fork() == 0:
            control.close()
            os._exit(_keep(*descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(channel: int, out: int, err: int, control: int) -> int:
    """Fork a process, tell how it ends, and end whatever it leaves behind. Return the exit code.

    Each fork has a keeper of its own, so that several can be there.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # it outlives the server, until its own control is closed
    become_subreaper()  # for processes that the fork leaves behind
    pid = _fork()
    if pid == 0:
        os.close(control)
        _become_child(channel, out, err)
    for descriptor in (channel, out, err):
        os.close(descriptor)
    with socket.socket(fileno=control) as answers:
        keep(answers, pid)
    return 0


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of threads (those of BLAS), which handle forks themselves
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become_child(channel: int, out: int, err: int) -> NoReturn:
    """Serve one task in a session of its own, and end as a new process does."""
    from tfopt_core.workers.child import main

    os.setsid()
    for descriptor, file in ((1, out), (2, err)):
        os.dup2(file, descriptor)
        os.close(file)
    sys.exit(main(channel, forked=True))


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
