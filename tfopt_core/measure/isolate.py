"""A process for each run: started, listened to, and never left behind.

The result travels on a private socket with a schema; what the workload prints goes to a file
and is never parsed.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from tfopt_core.measure.task import FINAL, Task, checked_message

# A process that was told to end gets this long before it is killed.
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.1
# Holds the dump of faulthandler, whose list of modules alone takes some 3000.
TAIL_BYTES = 16_000


@attrs.frozen(kw_only=True)
class ProcessOutcome:
    """How a process ended: its last word, or why there is none.

    `message` is its final message; `cause` says why there is none ("killed by SIGKILL").
    """

    message: dict[str, Any] | None
    cause: str | None
    seconds: float
    output_path: Path | None
    output_tail: str


class Runner(Protocol):
    """What carries out a task; tests give a fake one."""

    def __call__(
        self, task: Task, environment: Mapping[str, str], tell: Callable[[dict[str, Any]], None]
    ) -> ProcessOutcome: ...


@attrs.frozen
class SpawnRunner:
    """Runs each task in a new Python process, in a session of its own.

    :param capture: write the workload's output to a file in the task's folder; else it goes
        where this process' output goes.
    :param time_limit_seconds: a process that takes longer is ended; None for no limit.
    """

    capture: bool = True
    time_limit_seconds: float | None = None

    def __call__(
        self, task: Task, environment: Mapping[str, str], tell: Callable[[dict[str, Any]], None]
    ) -> ProcessOutcome:
        task.job.folder.mkdir(parents=True, exist_ok=True)
        path = task.job.folder / "output.txt" if self.capture else None
        started = time.perf_counter()
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(path.open("wb")) if path else None
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tfopt_core.measure.child", str(theirs.fileno())],
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT if output else None,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # the terminal's Ctrl-C reaches only this process
                )
            stack.callback(_end_group, process)
            message, cause = self._converse(process, ours, task, tell)
        tail = _tail(path) if path else ""
        return ProcessOutcome(
            message=message,
            cause=cause,
            seconds=time.perf_counter() - started,
            output_path=path,
            output_tail=tail,
        )

    def _converse(
        self,
        process: subprocess.Popen[bytes],
        ours: socket.socket,
        task: Task,
        tell: Callable[[dict[str, Any]], None],
    ) -> tuple[dict[str, Any] | None, str | None]:
        deadline = None
        if self.time_limit_seconds is not None:
            deadline = time.monotonic() + self.time_limit_seconds
        try:
            send_task(ours, task)
            for data in _lines(process, ours, deadline):
                try:
                    message = checked_message(json.loads(data), task.kind)
                except ValueError as error:
                    return None, f"broke the protocol: {error}"
                if message["type"] in FINAL:
                    _await_exit(process)
                    return message, None
                tell(message)
        except TimeoutError:
            _end_gently(process)
            return None, f"took longer than its limit of {self.time_limit_seconds:.0f} s"
        except (BrokenPipeError, ConnectionResetError):
            pass  # the process died before it read its task; how, is asked next
        return None, describe_exit(process.wait())


def send_task(channel: socket.socket, task: Task) -> None:
    """Send a task, its length first."""
    data = pickle.dumps(task)
    channel.sendall(struct.pack(">Q", len(data)) + data)


def receive_task(channel: socket.socket) -> Task:
    """Receive a task from the process that started this one.

    :raises EOFError: if that process is gone.
    """
    (length,) = struct.unpack(">Q", _exactly(channel, 8))
    task = pickle.loads(_exactly(channel, length))
    assert isinstance(task, Task)
    return task


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the parent process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def describe_exit(code: int) -> str:
    """How a process ended that said nothing: "killed by SIGKILL", "ended with status 3"."""
    if code >= 0:
        return f"ended with status {code} without a result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    # who sent it is not known; the kernel does when memory runs out
    hint = " (possibly out of memory)" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


def _lines(
    process: subprocess.Popen[bytes], channel: socket.socket, deadline: float | None
) -> Iterator[bytes]:
    """The lines that the process sends, until it closes its end or is gone."""
    channel.settimeout(POLL_SECONDS)
    pending = b""
    while True:
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError
        gone = process.poll() is not None
        try:
            part = channel.recv(1 << 16)
        except TimeoutError:
            # a process that the workload left behind may hold the other end open
            if gone:
                return
            continue
        if not part:
            return
        *lines, pending = (pending + part).split(b"\n")
        yield from lines


def _await_exit(process: subprocess.Popen[bytes]) -> None:
    """The process has said its last word: let it end by itself, but not for long."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)


def _end_gently(process: subprocess.Popen[bytes]) -> None:
    """TERM, ten seconds, then whatever `_end_group` does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    _await_exit(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the process' session: the workload may have forked."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode("utf-8", errors="replace")
