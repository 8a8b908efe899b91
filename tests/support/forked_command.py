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
# Has all that is timed without a training be timed for a moment only.
HASTY = Path(__file__).with_name("hasty.py")

_starting = threading.Lock()


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
    variables = command_server.start_variables
    return variables(environment) == variables(_server_environment())


def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    imported: bool = False,
    before: Path | None = None,
    site: Path | None = None,
    terminal: bool = False,
) -> ForkedCommand:
    """Start `tfopt` with these arguments.

    :param streams: the descriptors of its three standard streams.
    :param imported: processes that run a script have imported TensorFlow too, before it does.
    :param before: Python code that is executed first, such as `HASTY`.
    :param site: a folder of further distributions: on the import path, and in PYTHONPATH for the
        processes that the command starts anew.
    :param terminal: whether the first stream is a terminal, to be that of a session of its own.
    """
    if site is not None:
        environment = {**environment, "PYTHONPATH": str(site)}
    return _started(
        streams, program="tfopt", arguments=list(arguments), folder=str(folder),
        environment=dict(environment), passed=[], imported=imported,
        before=_text(before), terminal=terminal, import_path=[] if site is None else [str(site)],
    )  # fmt: skip


def start_python(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    before: Path | None = None,
    without_tfopt: bool = False,
) -> ForkedCommand:
    """Start what `python WORDS` starts, and have that fork the programs of tfopt too.

    :param words: a script, or `-c` or `-m` with theirs; and the program's arguments.
    :param without_tfopt: nothing of tfopt can be imported.
    """
    return _started(
        streams, program="python", arguments=list(words), folder=str(folder),
        environment=dict(environment), passed=[], before=_text(before),
        without_tfopt=without_tfopt,
    )  # fmt: skip


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
    passed = list(options["pass_fds"])
    with open(os.devnull) as null:
        out = 1 if options["stdout"] is None else options["stdout"].fileno()
        err = 2 if options["stderr"] is None else out
        return _started(
            [null.fileno(), out, err, *passed], program="reaper",
            arguments=list(command[place[0] + 1 :]), folder=os.getcwd(), environment=environment,
            passed=passed, before=_text(before),
        )  # fmt: skip


def _started(descriptors: Sequence[int], **request: Any) -> ForkedCommand:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(_server(), [json.dumps(request).encode()], [theirs.fileno(), *descriptors])
    return ForkedCommand(ours)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


@contextlib.contextmanager
def own_server(environment: Mapping[str, str]) -> Iterator[None]:
    """Fork the commands from another process, which starts here, under this environment.

    It has the locale, the CPUs, the mounts and the home of the place where it starts, and so have
    the commands: as if each of them had been started anew there, without the imports of each.
    """
    global _own
    _own = environment, _new_server(environment)
    try:
        yield
    finally:
        (_, server), _own = _own, None
        server.close()


# The server of a test's own, while there is one, with the environment that it was started under.
_own: tuple[Mapping[str, str], socket.socket] | None = None


def _server_environment() -> Mapping[str, str]:
    from support.real_process import environment

    return environment() if _own is None else _own[0]


def _server() -> socket.socket:
    if _own is not None:
        return _own[1]
    with _starting:  # tests may start commands from several threads
        return _started_server()


@functools.cache
def _started_server() -> socket.socket:
    """The other end of this test process' server."""
    return _new_server(_server_environment())


def _new_server(environment: Mapping[str, str]) -> socket.socket:
    """Start a server. Return the other end of it; once that is closed the server ends."""
    # packets: a request is never cut or glued to the next
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-P", command_server.__file__, str(theirs.fileno())],
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"}, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    ours.settimeout(READY_SECONDS)
    assert ours.recv(64) == b"ready", "the server of commands did not start"
    ours.settimeout(None)
    return ours
