"""A worker process, and the one between it and tfopt, which reports how it ended."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

from tfopt_core.workers import reaper

PACKET_BYTES = 1 << 16
# A new process sends its number within milliseconds, unless the machine is at its limits.
START_SECONDS = 60.0


class ParentGone(Exception):
    """The process that reports on another has ended, or gives no answer."""


def answer(control: socket.socket, timeout: float) -> dict[str, Any]:
    """Return the next packet.

    :raises ParentGone: if the other end is gone, or sends nothing within `timeout` seconds.
    """
    if not _readable(control, timeout):
        raise ParentGone
    try:
        data = control.recv(PACKET_BYTES)
    except OSError as error:
        raise ParentGone from error
    if not data:
        raise ParentGone
    packet: dict[str, Any] = json.loads(data)
    return packet


def _readable(control: socket.socket, timeout: float | None) -> bool:
    """Wait for a packet or the end of the stream. Return whether it came within the timeout."""
    poll = select.poll()  # `select.select` knows no descriptors above 1023, which a notebook has
    poll.register(control, select.POLLIN)
    return bool(poll.poll(None if timeout is None else 1000 * timeout))


@attrs.define(eq=False)
class WorkerProcess:
    """A worker process, which leads its own session. Its parent, which is between it and this
    process, waits for it and reports how it ended.

    :param at_end: called once its exit status is known.
    :param peak_rss_bytes: its largest resident memory, once its exit status is known; where it is a
        fork, no less than that of the process that it was forked from.
    :param left_behind: the command lines of processes that it left outside of its session, once its
        exit status is known; they have been ended.
    :param lost: whether its parent ended before it told the exit status, which is unknown then. The
        parent itself may be seen to end only a moment later.
    """

    control: socket.socket
    pid: int
    at_end: Callable[[], object] = lambda: None
    left_behind: tuple[str, ...] = attrs.field(default=(), init=False)
    peak_rss_bytes: int | None = attrs.field(default=None, init=False)
    lost: bool = attrs.field(default=False, init=False)
    _code: int | None = attrs.field(default=None, init=False)

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status.

        :raises subprocess.TimeoutExpired: after `timeout` seconds.
        """
        if self._code is None:
            if not _readable(self.control, timeout):
                raise subprocess.TimeoutExpired("a process", timeout or 0)
            try:
                packet = answer(self.control, 0)
                self._code = int(packet["status"])
                self.left_behind = tuple(map(str, packet["left_behind"]))
                self.peak_rss_bytes = int(packet["peak_rss_bytes"])
            except ParentGone:
                self._code, self.lost = -signal.SIGKILL, True  # its group is ended
            self.at_end()
        return self._code


def start_process(
    program: Sequence[str],
    environment: Mapping[str, str],
    passed: int,
    output: IO[bytes] | None,
) -> WorkerProcess:
    """Start a program in a session of its own, below a process that ends its orphans.

    :param passed: the descriptor that it inherits.
    :param output: the file for its output; None for the output of this process.
    :raises ParentGone: if it could not be started.
    """
    # packets: answers are never split or joined
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [
            sys.executable, "-I", "-S", str(Path(reaper.__file__)), str(theirs.fileno()),
            str(passed), *program,
        ]  # fmt: skip
        process = subprocess.Popen(
            command, env=dict(environment), pass_fds=[theirs.fileno(), passed],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT if output else None,
            start_new_session=True,  # the terminal's Ctrl-C reaches only this process
        )  # fmt: skip

    def end() -> None:
        process.wait()
        ours.close()

    try:
        return WorkerProcess(ours, int(answer(ours, START_SECONDS)["pid"]), end)
    except BaseException:
        process.kill()
        end()
        raise
