"""Supervise a worker process: read its messages, apply the time limits, and end it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from tfopt_core.hooks.plugin_class import size_in_words
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.training.distributed.serving import answers
from tfopt_core.training.messages import Answer, ClusterJoined, ClusterJoining, Message, Tell
from tfopt_core.workers.process import WorkerProcess
from tfopt_core.workers.task import PrepareTask, RunTask, Task, TurnOver, decode, send_task
from tfopt_core.workers.telemetry import oom_kills

# The time for a process to end after SIGTERM, before it is killed.
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.1
# Long enough for any step, trace, compilation or validation that is measured again and again.
SILENCE_SECONDS = 1800.0
# To write the stacks of all threads takes a moment.
DUMP_SECONDS = 0.5
DUMP_SIGNAL = signal.SIGUSR1
# The cause of a process that the kernel killed for want of memory, by its own count.
OUT_OF_MEMORY = "out of memory: killed by SIGKILL"
# How many addresses of a cluster are tried at once.
AT_ONCE = 32


@attrs.frozen(kw_only=True)
class Limits:
    """How long a process may take, in seconds; None for no limit.

    :param total: of a run, from its task to its last message; other tasks may take longer.
    :param dry_build: of a dry build.
    :param silence: without any message.
    :param start: until its first message, for a process that reports its start.
    :param called_off: called again and again; once it returns a reason, the process is killed.
    """

    total: float | None = None
    dry_build: float | None = None
    silence: float | None = SILENCE_SECONDS
    start: float | None = None
    called_off: Callable[[], str | None] | None = None


# A training of the user's own may be silent for any time.
NO_LIMITS = Limits(silence=None)


class NeverStarted(Exception):
    """A process gave no sign that it had started, or could not begin its task."""


class _Killed(Exception):
    """The process must be killed at once; the message is the cause."""


def converse(
    process: WorkerProcess,
    channel: socket.socket,
    task: Task,
    limits: Limits,
    tell: Tell,
    *,
    stays: bool = False,
) -> tuple[Answer | None, str | None]:
    """Send the task, and pass on the messages until the last one, with the user's own paths.

    :param stays: whether the process may wait for another task, and so need not end.
    :returns: the last message, or None and the cause.
    :raises NeverStarted: if there is no message within `limits.start`.
    """
    killed_before = oom_kills()
    total = limits.total if isinstance(task, RunTask) else None
    if isinstance(task, PrepareTask):
        total = limits.dry_build
    in_words: Callable[[str], str] = str if task.private is None else task.private.in_words
    deadlines = _Deadlines(attrs.evolve(limits, total=total))
    try:
        send_task(channel, task)
        for data in _lines(process, channel, deadlines):
            try:
                message = decode(data, in_words)
            except ValueError as error:
                return None, f"broke the protocol: {error}"
            if isinstance(message, Answer):
                if not stays:
                    _await_exit(process)
                return message, None
            deadlines.note(message)
            told = time.monotonic()
            tell(message)
            if isinstance(message, TurnOver):  # it was stopped until its next turn
                deadlines.leave_out(time.monotonic() - told)
        # without its connection it can give no result; what has no limits may take any time
        while limits.silence is None and process.poll() is None:
            deadlines.check()
            time.sleep(POLL_SECONDS)
    except _Killed as error:
        end_group(process)
        return None, str(error)
    except TimeoutError as error:
        _end_gently(process)
        if not deadlines.heard and limits.start is not None:
            raise NeverStarted from error
        return None, str(error)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the process died before it read its task
    try:
        code = process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _end_gently(process)
        return None, "closed its connection to tfopt and did not end"
    if code == -signal.SIGKILL and oom_kills() > killed_before:
        return None, OUT_OF_MEMORY
    return None, describe_exit(code, process.peak_rss_bytes)


def describe_exit(code: int, peak_rss_bytes: int | None = None) -> str:
    """Return how a process without a last message ended, such as "killed by SIGKILL"."""
    if code >= 0:
        return f"ended with status {code} without a result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    # the sender is unknown; the kernel sends it when memory runs out
    if name != "SIGKILL":
        return f"killed by {name}"
    peak = "" if peak_rss_bytes is None else f", peak memory {size_in_words(peak_rss_bytes)}"
    return f"killed by {name} (possibly out of memory{peak})"


def end_group(process: WorkerProcess) -> None:
    """Kill whatever is left of the process' session: the workload may have forked."""
    _signal_group(process, signal.SIGKILL)
    process.wait()


class _Deadlines:
    """Checks the limits of a process; each message restarts those of silence."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._begun = self.last = time.monotonic()
        self._joining: ClusterJoining | None = None
        self.heard = False

    def leave_out(self, seconds: float) -> None:
        """Do not count the seconds in which the process was stopped."""
        self._begun += seconds
        self.last += seconds

    def note(self, message: Message) -> None:
        """Allow a process that joins a cluster the time that its message names."""
        if isinstance(message, ClusterJoining):
            self._joining = message
        elif isinstance(message, ClusterJoined):
            self._joining = None

    def check(self) -> None:
        """Raise an error if a limit was exceeded.

        :raises TimeoutError: naming the limit.
        :raises _Killed: if it was called off, or the others of its cluster did not come.
        """
        limits, now, joining = self._limits, time.monotonic(), self._joining
        if limits.called_off is not None and (reason := limits.called_off()) is not None:
            raise _Killed(reason)
        if joining is not None and now - self.last > joining.seconds:
            # it waits in native code with Python's lock held: it could not even write its stacks
            raise _Killed(why_not_formed(joining.cluster.others, joining.seconds))
        if limits.total is not None and now - self._begun > limits.total:
            raise TimeoutError(f"took longer than its limit of {seconds_in_words(limits.total)}")
        silence = None if joining is not None else limits.silence
        if not self.heard and limits.start is not None:
            silence = limits.start
        if silence is not None and now - self.last > silence:
            raise TimeoutError(f"hung: no sign of life for {seconds_in_words(silence)}")


def _lines(
    process: WorkerProcess, channel: socket.socket, deadlines: _Deadlines
) -> Iterator[bytes]:
    """Yield the lines that the process sends, until it closes its end or is gone."""
    channel.settimeout(POLL_SECONDS)
    pending = b""
    while True:
        deadlines.check()
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
        deadlines.heard, deadlines.last = True, time.monotonic()
        *lines, pending = (pending + part).split(b"\n")
        yield from lines


def _await_exit(process: WorkerProcess) -> None:
    """Wait a while for the process to end by itself."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)


def _end_gently(process: WorkerProcess) -> None:
    """Have the process write its stacks, then send SIGTERM and wait; `end_group` follows."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, DUMP_SIGNAL)
        time.sleep(DUMP_SECONDS)
    _signal_group(process, signal.SIGTERM)
    _await_exit(process)


def _signal_group(process: WorkerProcess, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            # a fork that has not begun its session yet, or a process that is gone
            if process.poll() is None:
                os.kill(process.pid, number)


def why_not_formed(
    others: Mapping[str, str], seconds: float, answers: Callable[[str], bool] = answers
) -> str:
    """Return why a cluster did not form: who does not answer.

    `worker 1 (10.0.0.2:2222) and worker 2 (10.0.0.3:2222) did not come within 60 s, or have ended`

    :param others: the addresses of the other processes, by name.
    :param seconds: how long they were waited for.
    :param answers: returns whether a process listens at an address.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        there = dict(zip(others, pool.map(answers, others.values()), strict=True))
    within = seconds_in_words(seconds)
    missing = [f"{name} ({address})" for name, address in others.items() if not there[name]]
    if not missing:
        return f"the cluster did not form within {within} although every address answers"
    *first, last = missing
    named, have = (f"{', '.join(first)} and {last}", "have") if first else (last, "has")
    return f"{named} did not come within {within}, or {have} ended"
