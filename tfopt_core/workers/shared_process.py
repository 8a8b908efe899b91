"""One worker process for several tasks: it is started once, and waits for the next."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Self

import attrs

from tfopt_core.errors import CannotShare
from tfopt_core.records.messages import Tell
from tfopt_core.workers.process_control import ControlledProcess, DirectProcess, ParentGone
from tfopt_core.workers.spawn import ProcessOutcome, SpawnRunner, tail_of
from tfopt_core.workers.supervise import Limits, converse
from tfopt_core.workers.task import LookTask, Task


@attrs.define(eq=False)
class SharedProcess:
    """Runs tasks one after another in the process that the first of them has started.

    Use it as a context manager: leaving it ends the process.

    :param spawn: starts the process; its limits are those of the first task.
    :param limits: those of a task that follows.
    """

    spawn: SpawnRunner
    limits: Limits = attrs.field(factory=Limits)
    _process: ControlledProcess | DirectProcess | None = attrs.field(default=None, init=False)
    _channel: socket.socket | None = attrs.field(default=None, init=False)
    _opened: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack, init=False)
    _first: Task | None = attrs.field(default=None, init=False)

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
            self._first = task
            with contextlib.suppress(ParentGone):
                self._process, self._channel = self.spawn.start(task, environment, self._opened)
        if self._process is None or self._channel is None:
            raise CannotShare(
                "the process that looks at the script could not be started, or is gone"
            )
        limits = self.limits if follows else self.spawn.limits
        self._channel.settimeout(None)  # that of reading the answers before
        message, cause = converse(self._process, self._channel, task, limits, tell, stays=True)
        left_behind = self._process.left_behind
        if message is None:
            self.close()
            if follows and (limits.called_off is None or limits.called_off() is None):
                raise CannotShare(f"the process that looked at the script {cause}")
        assert self._first is not None
        path = self.spawn.output_path(self._first)
        return ProcessOutcome(
            message=message, cause=cause, seconds=time.perf_counter() - started, output_path=path,
            output_tail=tail_of(path) if path else "", left_behind=left_behind,
        )  # fmt: skip
