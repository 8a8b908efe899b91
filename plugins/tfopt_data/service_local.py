"""A data service of this process' own: started, watched, and ended with it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.plugins import PluginRefused

# Importing TensorFlow takes 2 to 4 s in each process, and many times that on a busy machine.
START_SECONDS = 120.0
# A process that was told to end by closing its input does so at once.
END_SECONDS = 2.0
WATCH_SECONDS = 0.25
TAIL_LINES = 6
# -P: a file in the working directory is no module of these processes
PROGRAM = ("-P", "-m", "tfopt_data.service_process")
# What belongs to the training: its processes must not take the GPU, or a place in a cluster.
NOT_INHERITED = ("TF_CONFIG", "XLA_FLAGS", "TF_XLA_FLAGS")


def end_run(cause: str) -> None:
    """End this process with the cause as its last words.

    A training whose data service has lost a process hangs in native code, where no exception
    reaches it.
    """
    print(f"tfopt: data-service: {cause}", file=sys.stderr, flush=True)
    os._exit(3)


@attrs.define(eq=False)
class LocalService:
    """The processes of a data service, in the session of this process."""

    target: str
    processes: tuple[subprocess.Popen[bytes], ...]
    _stopped: threading.Event = attrs.field(factory=threading.Event)

    @classmethod
    def start(
        cls,
        workers: int,
        port: int,
        folder: Path,
        *,
        limit_seconds: float = START_SECONDS,
        on_death: Callable[[str], None] = end_run,
    ) -> LocalService:
        """Start a dispatcher and its workers, and wait until all of them serve.

        :param port: the dispatcher's; 0 takes a free one.
        :param folder: where what they print goes.
        :param on_death: called with the cause once one of them ends unasked.
        :raises PluginRefused: if the port is taken, or one does not start in time.
        """
        _check_free(port)
        folder.mkdir(parents=True, exist_ok=True)
        starting = _Starting(folder, time.monotonic() + limit_seconds)
        try:
            for index in range(workers):
                role = ("first", str(port)) if index == 0 else ("worker",)
                starting.add(*role)
            target = str(starting.answer(0)["target"])
            for index in range(1, workers):
                starting.tell(index, target)
            for index in range(workers):
                starting.answer(index)
        except BaseException:
            _end(starting.processes)
            raise
        service = cls(target, tuple(starting.processes))
        threading.Thread(target=service._watch, args=(on_death,), daemon=True).start()
        return service

    @property
    def stopped(self) -> bool:
        """Whether it was ended."""
        return self._stopped.is_set()

    @property
    def alive(self) -> int:
        """How many of the processes run."""
        return sum(process.poll() is None for process in self.processes)

    def stop(self) -> None:
        """End all processes, and wait until they have ended. Safe to repeat."""
        self._stopped.set()
        _end(self.processes)

    def _watch(self, on_death: Callable[[str], None]) -> None:
        while not self._stopped.wait(WATCH_SECONDS):
            for index, process in enumerate(self.processes):
                code = process.poll()
                if code is not None and not self._stopped.is_set():
                    on_death(f"worker {index + 1} of {len(self.processes)} {_ending(code)}")
                    return


@attrs.define(eq=False)
class _Starting:
    """Processes on their way up."""

    folder: Path
    deadline: float
    processes: list[subprocess.Popen[bytes]] = attrs.field(factory=list)
    _pending: dict[int, bytes] = attrs.field(factory=dict)

    def add(self, *role: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
        with self._log(len(self.processes)).open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, *PROGRAM, str(os.getpid()), *role],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            )

    def tell(self, index: int, line: str) -> None:
        pipe = self.processes[index].stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):  # how it ended is said when it is asked
            pipe.write(f"{line}\n".encode())
            pipe.flush()

    def answer(self, index: int) -> dict[str, Any]:
        """The next line that a process says.

        :raises PluginRefused: if it says that it cannot, ends, or says nothing in time.
        """
        process = self.processes[index]
        assert process.stdout is not None
        pending = self._pending.get(index, b"")
        while b"\n" not in pending:
            left = max(0.0, self.deadline - time.monotonic())
            if not select.select([process.stdout], [], [], left)[0]:
                raise PluginRefused(f"worker {index + 1} did not start in time")
            data = os.read(process.stdout.fileno(), 4096)
            if not data:
                ending = _ending(process.wait())
                raise PluginRefused(f"worker {index + 1} {ending}{self._tail(index)}")
            pending += data
        line, _, self._pending[index] = pending.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise PluginRefused(f"worker {index + 1} cannot start: {told['error']}")
        return told

    def _log(self, index: int) -> Path:
        return self.folder / f"worker-{index + 1}.txt"

    def _tail(self, index: int) -> str:
        lines = self._log(index).read_text(encoding="utf-8", errors="replace").splitlines()
        return "; its last words: " + " | ".join(lines[-TAIL_LINES:]) if lines else ""


def _check_free(port: int) -> None:
    """:raises PluginRefused: if something listens there. TensorFlow's own server would share the
    port with another one (SO_REUSEPORT), and answer every other request."""
    if port == 0:
        return
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError as error:
            raise PluginRefused(
                f"port {port} cannot be had ({(error.strerror or str(error)).lower()}); set "
                "another one, or port = 0 for any that is free"
            ) from error


def _end(processes: Any) -> None:
    for process in processes:
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
    deadline = time.monotonic() + END_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
