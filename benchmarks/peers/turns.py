"""Have the contestants of a round train in turns: one process goes on while all others are stopped.

The speed of a machine that others share changes within seconds, so that trainings that follow one
another are compared under unlike conditions. Here each contestant trains for a second or two at a
time (`contestant.Turns` says for how long), in an order that is drawn anew each time.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

from peers.contestant import SECONDS, TURN
from peers.processes import end_group, start_process, why_failed

Report = dict[str, Any]
# How often the race looks whether a turn is over.
LOOK_SECONDS = 0.01


@attrs.frozen
class Start:
    """How a contestant is started.

    :param folder: where it runs and its files are; no other contestant's.
    :param command: returns the command and its environment; called when it is started, so that it
        may hold the time of that.
    """

    folder: Path
    command: Callable[[], tuple[list[str], dict[str, str]]]


@attrs.define(eq=False)
class ContestantProcess:
    """The process of a contestant, which takes turns with others.

    :param limit_seconds: of all its turns.
    :param seconds: of its turns so far.
    """

    process: subprocess.Popen[str]
    output: IO[str]
    turn: Path
    limit_seconds: float
    seconds: float = 0.0
    why: str = ""
    _stopped: int | None = None

    @classmethod
    def start(cls, start: Start, seconds: float, limit_seconds: float) -> ContestantProcess:
        """Start the process, which stops before its first epoch: `wait` for that."""
        turn = start.folder / "turn"
        turn.unlink(missing_ok=True)
        command, environment = start.command()
        output = (start.folder / "output.txt").open("w+", encoding="utf-8", errors="replace")
        environment = {**environment, TURN: str(turn), SECONDS: str(seconds)}
        process = start_process(command, start.folder, environment, output)
        return cls(process, output, turn, limit_seconds)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._stopped is None

    def go_on(self) -> None:
        """Let it have a turn, and wait for the end of that."""
        assert self._stopped is not None
        self.turn.unlink(missing_ok=True)
        os.kill(self._stopped, signal.SIGCONT)
        self.wait()

    def wait(self) -> None:
        """Wait until the process stops or ends."""
        began = time.monotonic()
        self._stopped = None
        while self.process.poll() is None:
            if (pid := self._written_pid()) and _is_stopped(pid):
                self._stopped = pid
                break
            if self.seconds + time.monotonic() - began > self.limit_seconds:
                self.why = f"it took longer than {self.limit_seconds:.0f} s"
                end_group(self.process)
                break
            time.sleep(LOOK_SECONDS)
        self.seconds += time.monotonic() - began

    def _written_pid(self) -> int | None:
        """Return the ID of the process whose turn is over, None before it has written that."""
        try:
            return int(self.turn.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or half written
            return None

    def end(self) -> Report:
        """End what still runs. Return its seconds, and {"failed": why} if it failed."""
        # tfopt trains in a child process, in a session of its own
        if stopped := self._stopped or self._written_pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGKILL)
        end_group(self.process)
        self.output.seek(0)
        why = self.why or why_failed(self.process.returncode, self.output.read())
        self.output.close()
        return {"process_seconds": self.seconds, **({"failed": why} if why else {})}


def train_in_turns(
    starts: Sequence[Start], draw: random.Random, seconds: float, limit_seconds: float
) -> list[Report]:
    """Start contestants one after the other, and let them train in turns until all have ended.

    An interruption ends their processes too.

    :param draw: draws the order of each turn.
    :param seconds: that each trains in its turns, at least.
    :param limit_seconds: what its start and its turns may take.
    """
    begun: list[ContestantProcess] = []
    try:
        for start in starts:
            one = ContestantProcess.start(start, seconds, limit_seconds)
            begun.append(one)  # before it is waited for, so that an interruption ends it too
            one.wait()
        while training := [one for one in begun if not one.is_over]:
            for one in draw.sample(training, len(training)):
                one.go_on()
    finally:
        reports = [one.end() for one in begun]
    return reports


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"
