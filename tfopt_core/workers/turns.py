"""Have processes train in turns: one goes on while the others are stopped.

The speed of a machine that others share changes within seconds, so that trainings that follow one
another are compared under unlike conditions.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar

import attrs

from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.recipe import Objective, WorkloadSpec
from tfopt_core.records.messages import Progress, Tell, TurnOver

Result = TypeVar("Result")
LOOK_SECONDS = 0.005
# The next process starts where this many times the memory of the first one is free: what follows
# its start, such as a validation, may need more.
FREE_MEMORY = 1.5


def can_take_turns(workload: WorkloadSpec, objective: Objective) -> bool:
    """Return whether trainings of a workload that are cut short can take turns.

    For memory, the one's peak would count what the other holds; a training to a target is whole,
    and at the end of an epoch threads may sleep until a time of day; in one folder the sides would
    disturb each other. Stopping a process is tested on Linux.
    """
    share_folder = workload.is_script and workload.isolate is False
    return objective == "time" and not share_folder and sys.platform.startswith("linux")


class TurnsEnded(Exception):
    """The turns were interrupted; a process that waits for its next one is to be ended."""


@attrs.define(eq=False)
class TurnsOfProcesses(Generic[Result]):
    """Passes the turn from one of several threads, each with a process, to the next one.

    :param work: starts a process and waits for its end, for each of them; it is given the function
        that the process' messages are told to.
    :param paused: entered while a process is stopped.
    :param interrupt: ends the process that runs.
    """

    work: Sequence[Callable[[Tell], Result]]
    paused: Callable[[], contextlib.AbstractContextManager[object]]
    interrupt: Callable[[], object]
    _turn: int = 0
    _ended: bool = False
    _over: set[int] = attrs.field(factory=set)
    _begun: set[int] = attrs.field(factory=set)
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def carry_out(self) -> list[Result]:
        """Have the processes train, one at a time. Return what the work of each returned."""
        with ThreadPoolExecutor(len(self.work)) as threads:
            futures = [threads.submit(self._one, place) for place in range(len(self.work))]
            try:
                wait(futures)
            except BaseException:
                self._end()
                raise
        return [future.result() for future in futures]

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.interrupt()

    def _one(self, place: int) -> Result:
        def tell(message: Progress) -> None:
            if isinstance(message, TurnOver):
                self._turn_over(place, message.pid)

        try:
            self._await_turn(place)
            self._begun.add(place)
            return self.work[place](tell)
        finally:
            with self._changed:
                self._over.add(place)
                if self._turn == place:
                    self._pass_on()

    def _turn_over(self, place: int, pid: int) -> None:
        """Let the others train, and have the process go on when its turn comes again."""
        _await_stop(pid)
        if len(self._begun) == len(self.work) or _has_room_for_another(pid):
            with self.paused():
                with self._changed:
                    self._pass_on()
                self._await_turn(place)
        _resume(pid)

    def _await_turn(self, place: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._turn == place)
            if self._ended:
                raise TurnsEnded

    def _pass_on(self) -> None:
        count = len(self.work)
        following = [(self._turn + 1 + step) % count for step in range(count)]
        self._turn = next((one for one in following if one not in self._over), self._turn)
        self._changed.notify_all()


def _await_stop(pid: int) -> None:
    """Wait until a process has stopped, or is gone."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(LOOK_SECONDS)


def _has_room_for_another(pid: int) -> bool:
    """Return whether the memory that is free is enough for another process like this one."""
    import psutil

    try:
        used: int = psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return True
    return available_memory_bytes() >= FREE_MEMORY * used


def _resume(pid: int) -> None:
    """Have a process and its children go on."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()
