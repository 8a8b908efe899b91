"""Start a new process for each run, pass on its messages, and never leave it behind.

The result travels on a private socket with a schema; what the workload prints goes to a file
and is never parsed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Self

import attrs

from tfopt_core.errors import CannotShare
from tfopt_core.scripts.folders.private_folder import PrivateFolder
from tfopt_core.training.messages import Answer, RunReport, Tell
from tfopt_core.workers.process import ParentGone, WorkerProcess, start_process
from tfopt_core.workers.supervise import OUT_OF_MEMORY, Limits, converse, end_group
from tfopt_core.workers.task import Failure, LookTask, Task

# Enough for the dump of faulthandler, whose list of modules alone takes some 3000.
TAIL_BYTES = 16_000
OUTPUT_FILE = "output.txt"

Started = Literal["spawned", "forked", "spawned: forking failed"]
FELL_BACK: Started = "spawned: forking failed"


@attrs.frozen(kw_only=True)
class ProcessOutcome:
    """How a process ended: its last message, or why there is none.

    `message` is its last message; `cause` says why there is none ("killed by SIGKILL");
    `output_tail` is the end of what it has printed, in the file `output_path` if that is captured;
    `left_behind` are the processes outside of its session that outlived it and were ended;
    `written` the files that a script has left in its private folder;
    `out_of_memory` says that memory ran out and ended it.
    """

    message: Answer | None
    cause: str | None
    seconds: float
    output_path: Path | None
    output_tail: str = attrs.field()
    started: Started = "spawned"
    left_behind: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    out_of_memory: bool = attrs.field()

    @output_tail.default
    def _end_of_output(self) -> str:
        if self.output_path is None:
            return ""
        with self.output_path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")

    @out_of_memory.default
    def _ended_by_memory(self) -> bool:
        if isinstance(self.message, Failure | RunReport):
            return self.message.out_of_memory
        return self.cause == OUT_OF_MEMORY


# Runs a task in a process; tests use a fake.
Runner = Callable[[Task, Mapping[str, str], Tell], ProcessOutcome]


@attrs.frozen
class SpawnRunner:
    """Runs each task in a new Python process, in a session of its own.

    :param capture: write the workload's output to a file in the task's folder; else it goes
        where this process' output goes.
    :param limits: a process that exceeds one of them is ended.
    :param program: the command, to which the descriptor of the socket is added; tests replace it.
    """

    capture: bool = True
    limits: Limits = attrs.field(factory=Limits)
    program: tuple[str, ...] = (sys.executable, "-P", "-m", "tfopt_core.workers.child")

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        path = self.output_path(task)
        started = time.perf_counter()
        left_behind: tuple[str, ...] = ()
        try:
            with contextlib.ExitStack() as stack:
                process, channel = self.start(task, environment, stack)
                message, cause = converse(process, channel, task, self.limits, tell)
            left_behind = process.left_behind
        except ParentGone:
            message, cause = None, "its process could not be started"
        return ProcessOutcome(
            message=message, cause=cause, seconds=time.perf_counter() - started, output_path=path,
            left_behind=left_behind,
        )  # fmt: skip

    def output_path(self, task: Task) -> Path | None:
        """Return the file for the output of the task's process, None where it is not captured; its
        folder is made."""
        task.job.folder.mkdir(parents=True, exist_ok=True)
        return task.job.folder / OUTPUT_FILE if self.capture else None

    def start(
        self, task: Task, environment: Mapping[str, str], stack: contextlib.ExitStack
    ) -> tuple[WorkerProcess, socket.socket]:
        """Start a process for the task. Return it, and the socket on which it waits for the task.

        :param stack: its end ends the process, and whatever is left of its session.
        :raises ParentGone: if it cannot be started.
        """
        path = self.output_path(task)
        output = stack.enter_context(path.open("wb")) if path else None
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        with theirs:
            channel = theirs.fileno()
            behind = [] if task.private is None else task.private.command()
            program = [*behind, *self.program, str(channel)]
            process = start_process(program, environment, channel, output)
        stack.callback(end_group, process)
        return process, ours


@attrs.define(eq=False)
class SharedProcess:
    """Runs tasks one after another in the process that the first of them has started.

    Use it as a context manager: leaving it ends the process.

    :param spawn: starts the process; its limits are those of the first task.
    :param limits: those of a task that follows.
    """

    spawn: SpawnRunner
    limits: Limits = attrs.field(factory=Limits)
    _process: WorkerProcess | None = attrs.field(default=None, init=False)
    _channel: socket.socket | None = attrs.field(default=None, init=False)
    _opened: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack, init=False)
    _output: Path | None = attrs.field(default=None, init=False)
    _private: PrivateFolder | None = attrs.field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, if one is there."""
        self._process = self._channel = None
        self._opened.close()

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        """Run a task and return its outcome.

        :raises CannotShare: for a task that follows, if the process is gone or ends without an
            answer; a new one shows whether that is the task's doing.
        """
        started = time.perf_counter()
        follows = isinstance(task, LookTask) and task.follows
        if not follows:
            self.close()
            self._output, self._private = self.spawn.output_path(task), task.private
            with contextlib.suppress(ParentGone):
                self._process, self._channel = self.spawn.start(task, environment, self._opened)
        if self._process is None or self._channel is None:
            raise CannotShare(
                "the process that looks at the script could not be started, or is gone"
            )
        task = attrs.evolve(task, private=self._private)  # it works on in that of its first task
        limits = self.limits if follows else self.spawn.limits
        self._channel.settimeout(None)  # that of reading the answers before
        message, cause = converse(self._process, self._channel, task, limits, tell, stays=True)
        left_behind = self._process.left_behind
        if message is None:
            self.close()
            if follows and (limits.called_off is None or limits.called_off() is None):
                raise CannotShare(f"the process that looked at the script {cause}")
        return ProcessOutcome(
            message=message, cause=cause, seconds=time.perf_counter() - started,
            output_path=self._output, left_behind=left_behind,
        )  # fmt: skip
