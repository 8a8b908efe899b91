"""`tfopt` commands that are forked from a process which has imported TensorFlow."""

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import command_server
from tfopt_core.workers import process as worker_process

# The import of TensorFlow on a busy machine with a cold disk.
READY_SECONDS = 240.0

# The servers of this process, of which the last one forks: the environment of one of a test's own,
# and its other end.
_servers: list[tuple[Mapping[str, str] | None, socket.socket]] = []
_starting = threading.Lock()  # the roles of a cluster are started from several threads


class ForkedCommand:
    """A `tfopt` under way, with what the tests use of `subprocess.Popen`.

    :param status: tells its pid, then its exit status.
    """

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.returncode: int | None = None
        self.pid = int(status.recv(64))

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status, negative for a signal.

        :raises subprocess.TimeoutExpired: after `timeout` seconds.
        """
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("tfopt", timeout or 0)
            self.returncode = int(self._status.recv(64))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether a new process with this environment would import what the server has imported."""
    own = _servers[-1][0] if _servers else None
    variables = command_server.start_variables
    return variables(environment) == variables(own or _usual())


def start(
    words: Sequence[str],
    folder: Path | str,
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    passed: Sequence[int] = (),
    before: Path | None = None,
    site: Path | None = None,
    session: bool = False,
    server: socket.socket | None = None,
) -> ForkedCommand:
    """Start a program: "tfopt" with its arguments, or what `python WORDS` starts.

    The programs of tfopt that it starts are forked too.

    :param streams: the descriptors of its three standard streams.
    :param passed: further descriptors that it gets under their numbers.
    :param before: Python code that is executed first.
    :param site: a folder of further distributions: on the import path, and in PYTHONPATH for the
        processes that the command starts anew.
    :param session: whether it leads a session of its own; a terminal that is its first stream is
        that of the session.
    :param server: of `new_server`, in the place of the usual one.
    """
    if site is not None:
        environment = {**environment, "PYTHONPATH": str(site)}
    request = {
        "words": list(words), "folder": str(folder), "environment": dict(environment),
        "passed": list(passed), "before": None if before is None else str(before),
        "import_path": [] if site is None else [str(site)], "session": session,
    }  # fmt: skip
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        descriptors = [theirs.fileno(), *streams, *passed]
        socket.send_fds(server or _server(), [json.dumps(request).encode()], descriptors)
    return ForkedCommand(ours)


@contextlib.contextmanager
def runs_forked(*, before: Path | None = None) -> Iterator[None]:
    """Have the processes that tfopt starts for runs, from this process, be forked instead.

    They are processes as any other, and save the import of TensorFlow. Those of scripts and the
    roles of clusters too, which tfopt itself never forks.

    :param before: Python code that they execute first.
    """
    with pytest.MonkeyPatch.context() as patch:
        popen = functools.partial(_popen, before)
        replaced = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
        patch.setattr(worker_process, "subprocess", replaced)
        yield


def _popen(before: Path | None, command: Sequence[str], **options: Any) -> Any:
    """Fork tfopt's program between itself and a run, as `subprocess.Popen` would start it."""
    environment = options["env"]
    place = [number for number, word in enumerate(command) if word.endswith("/reaper.py")]
    if not place or not can_be_forked(environment):
        return subprocess.Popen(command, **options)
    with open(os.devnull) as null:
        out = 1 if options["stdout"] is None else options["stdout"].fileno()
        err = 2 if options["stderr"] is None else out
        return start(
            ["reaper", *command[place[0] + 1 :]], os.getcwd(), environment,
            [null.fileno(), out, err], passed=options["pass_fds"], before=before, session=True,
        )  # fmt: skip


@contextlib.contextmanager
def own_server(environment: Mapping[str, str]) -> Iterator[None]:
    """Fork the commands from another process, which starts here, under this environment.

    It has the locale, the CPUs, the mounts and the home of the place where it starts, and so have
    the commands: as if each of them had been started anew there, without the imports of each.
    """
    _servers.append((environment, new_server(environment)))
    try:
        yield
    finally:
        _servers.pop()[1].close()


def _usual() -> Mapping[str, str]:
    from support.real_process import environment

    return environment()


def _server() -> socket.socket:
    with _starting:
        if not _servers:
            _servers.append((None, new_server(_usual())))
        return _servers[-1][1]


def new_server(environment: Mapping[str, str], *modules: str) -> socket.socket:
    """Start a server. Return the other end of it; once that is closed the server ends.

    :param modules: what it imports beside TensorFlow and tfopt.
    """
    # packets: a request is never cut or glued to the next
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-P", command_server.__file__, str(theirs.fileno()), *modules],
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"}, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    ours.settimeout(READY_SECONDS)
    assert ours.recv(64) == b"ready", "the server of commands did not start"
    ours.settimeout(None)
    return ours
