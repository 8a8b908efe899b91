"""Fork runs from a process that has imported TensorFlow already, so that they start fast.

Importing takes seconds and is no part of a training. A fork server imports once and never touches
a device; each run is a fork of it. There is one for each distinct environment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

import attrs

from tfopt_core.scripts.folders.private_folder import PRIVATE
from tfopt_core.training.messages import Tell
from tfopt_core.workers.process import ParentGone, WorkerProcess, answer
from tfopt_core.workers.spawn import FELL_BACK, ProcessOutcome, Runner, SpawnRunner
from tfopt_core.workers.supervise import NeverStarted, converse, end_group
from tfopt_core.workers.task import CannotMount, Task

# Importing TensorFlow takes 2 to 4 s here; a cold disk may take many times that.
READY_SECONDS = 120.0
# A fork opens its devices in a fraction of a second, or it hangs for good: TensorFlow had been
# used before the fork.
START_SECONDS = 60.0
PROGRAM = (sys.executable, "-P", "-m", "tfopt_core.workers.fork_server")


def may_fork(task: Task, environment: Mapping[str, str]) -> bool:
    """Return whether a task may run in a fork: where that is known to be equal to a new process.

    A driver may hold what a fork cannot share; a script that is trained for the user starts as it
    does without tfopt; and with `debug` TensorFlow's start-up messages are to be shown.
    """
    own = task.job.recipe.workload.is_script and not task.measured
    devices = task.job.machine.gpus or environment.get("TPU_NAME")
    return task.forks and not (own or devices or task.debug)


@attrs.define(eq=False)
class ForkRunner:
    """Runs each task in a fork where that is allowed, else in a new process.

    Use it as a context manager: leaving it ends the servers.

    :param spawn: runs the tasks that may not be forked.
    """

    spawn: SpawnRunner = attrs.field(factory=SpawnRunner)
    _servers: dict[frozenset[tuple[str, str]], Server] = attrs.field(factory=dict)
    _trusted: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def with_spawn(self, spawn: SpawnRunner) -> ForkRunner:
        """Return a runner with the same servers and another `spawn`; do not close it."""
        return attrs.evolve(self, spawn=spawn)

    def close(self) -> None:
        """End all servers."""
        for server in list(self._servers.values()):  # another thread may close them, too
            server.close()
        self._servers.clear()

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        if not may_fork(task, environment):
            return self.spawn(task, environment, tell)
        if self._trusted:
            try:
                return self._forked(self._server(environment), task, tell)
            except (ParentGone, NeverStarted):
                # a new process either works or reports the reason
                self._trusted = False
                self.close()
                # the fork may have mounted it, or written to it
                shutil.rmtree(task.job.folder / PRIVATE, ignore_errors=True)
        return attrs.evolve(self.spawn(task, environment, tell), started=FELL_BACK)

    def warm_up(self, task: Task, environment: Mapping[str, str]) -> None:
        """Start the server for such a task now, where one is needed and is not there: what that
        computes is then no part of a run."""
        if self._trusted and may_fork(task, environment):
            try:
                self._server(environment)
            except ParentGone:
                self._trusted = False

    def _server(self, environment: Mapping[str, str]) -> Server:
        """Return the server for this environment."""
        key = frozenset(environment.items())
        if key not in self._servers:
            self._servers[key] = Server.start(environment)
        return self._servers[key]

    def _forked(self, server: Server, task: Task, tell: Tell) -> ProcessOutcome:
        started, path = time.perf_counter(), self.spawn.output_path(task)
        limits = attrs.evolve(self.spawn.limits, start=START_SECONDS)
        with contextlib.ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs, contextlib.ExitStack() as opened:
                file = opened.enter_context(path.open("wb")) if path else None
                out, err = (file.fileno(), file.fileno()) if file else (1, 2)
                process = server.fork(theirs.fileno(), out, err)
            stack.callback(end_group, process)
            message, cause = converse(process, ours, task, limits, tell)
            if isinstance(message, CannotMount):
                raise NeverStarted
            if message is None and process.lost and self.spawn.capture:
                # the server is gone, and with it the exit status: repeat a run of a measurement,
                # but not a training that prints as it goes
                raise ParentGone
        return ProcessOutcome(
            message=message, cause=cause, seconds=time.perf_counter() - started, output_path=path,
            left_behind=process.left_behind, started="forked",
        )  # fmt: skip


@contextlib.contextmanager
def called_off(runner: Runner) -> Iterator[Callable[[], None]]:
    """Yield a function that ends the processes of this block, where the runner forks them."""
    if not isinstance(runner, ForkRunner):
        yield lambda: None
        return
    earlier, ended = runner.spawn, threading.Event()

    def reason() -> str | None:
        own = earlier.limits.called_off
        return "interrupted" if ended.is_set() else own and own()

    limits = attrs.evolve(earlier.limits, called_off=reason)
    try:
        runner.spawn = attrs.evolve(earlier, limits=limits)
        yield ended.set
    finally:
        runner.spawn = earlier


@attrs.define(eq=False)
class Server:
    """A fork server, seen from the process that started it."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> Server:
        """Start a server and wait until it has imported everything.

        :raises ParentGone: if it cannot.
        """
        # packets: answers are never split or joined
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*PROGRAM, str(theirs.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # TensorFlow's start-up messages
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        server = cls(process, ours)
        try:
            answer(ours, READY_SECONDS)
        except BaseException:
            server.close()
            raise
        return server

    def fork(self, channel: int, out: int, err: int) -> WorkerProcess:
        """Fork a process that serves this channel and writes to these two files.

        :raises ParentGone: if the server is gone.
        """
        # packets: answers are never split or joined
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self.control, [b"f"], [channel, out, err, theirs.fileno()])
            except OSError as error:
                ours.close()
                raise ParentGone from error
        try:
            return WorkerProcess(ours, int(answer(ours, START_SECONDS)["pid"]), ours.close)
        except ParentGone:
            ours.close()
            raise

    def close(self) -> None:
        """End the server; what keeps its forks ends them when their controls close."""
        self.control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
