"""Have processes train in turns: one goes on while the others are stopped.

The speed of a machine that others share changes within seconds, so that trainings that follow one
another are compared under unlike conditions.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar

import attrs

from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.recipe.model import Objective, WorkloadSpec
from tfopt_core.training.messages import Message, Tell
from tfopt_core.workers.task import TurnOver

Result = TypeVar("Result")
LOOK_SECONDS = 0.005
# A process that has had so much more time than another one waits: about a turn.
AHEAD_SECONDS = 0.5
# The next process starts where this many times the memory of the first one is free: what follows
# its start, such as a validation, may need more.
FREE_MEMORY = 1.5
# A turn of so many seconds in which the CPUs did next to nothing waits for what a stopped process
# holds, such as a lock or a port: ten turns. Or it waits for tf.data's tuning thread, whose sleeps
# double up to a minute: none is longer than the thread has lived.
WAITING_SECONDS, WAITING_CPU_SHARE, LONGEST_SLEEP_SECONDS = 5.0, 0.02, 60.0


def can_take_turns(workload: WorkloadSpec, objective: Objective) -> bool:
    """Return whether trainings of a workload can take turns.

    For memory, the one's peak would count what the other holds; what a stop does to the end of an
    epoch (see `Pacing`) cannot be taken out of the time to a target; in one folder the sides would
    disturb each other.
    """
    share_folder = workload.is_script and workload.isolate is False
    return objective == "time" and not share_folder


class TurnsEnded(Exception):
    """The turns have ended; a process that waits for its next one is to be ended."""


class CannotTakeTurns(Exception):
    """A process waits for what one holds that is stopped."""


@attrs.define(eq=False)
class TurnsOfProcesses(Generic[Result]):
    """Passes the turn from one of several threads, each with a process, to another one.

    They start one after the other. Then each has a turn in each cycle, in drawn order.

    :param evenly: whether all train for the same time, and not to their ends. Then one with longer
        turns waits until the others have had as much time.
    :param work: starts a process and waits for its end, for each of them; it is given the function
        that the process' messages are told to.
    :param source: draws the order.
    :param interrupt: ends the process that runs.
    """

    work: Sequence[Callable[[Tell], Result]]
    source: random.Random
    interrupt: Callable[[], object]
    evenly: bool = False
    _turn: int = 0
    _turns: int = 0
    _cycle: list[int] = attrs.field(factory=list)
    _ended: bool = False
    _had: dict[int, float] = attrs.field(factory=lambda: defaultdict(float))
    _resumed: dict[int, float] = attrs.field(factory=dict)
    _over: set[int] = attrs.field(factory=set)
    _begun: set[int] = attrs.field(factory=set)
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def carry_out(self) -> list[Result]:
        """Have the processes train, one at a time. Return what the work of each returned.

        :raises CannotTakeTurns: if one waits for what another one holds. All have been ended.
        """
        waits = False
        with ThreadPoolExecutor(len(self.work)) as threads:
            try:
                futures = [threads.submit(self._one, place) for place in range(len(self.work))]
                watch = _Watch()
                while wait(futures, timeout=1.0).not_done and not waits:
                    several = len(self._begun - self._over) > 1
                    waits = watch.is_idle(self._turns) and several
            except BaseException:
                self._end()
                raise
            if waits:
                self._end()
        if waits:
            raise CannotTakeTurns
        return [future.result() for future in futures]

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.interrupt()

    def _one(self, place: int) -> Result:
        def tell(message: Message) -> None:
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
        if place in self._resumed:  # the first turn is the start
            self._had[place] += time.monotonic() - self._resumed[place]
        if len(self._begun) == len(self.work) or _has_room_for_another(pid):
            with self._changed:
                self._pass_on()
            self._await_turn(place)
        self._resumed[place] = time.monotonic()
        _resume(pid)

    def _await_turn(self, place: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._turn == place)
            if self._ended:
                raise TurnsEnded

    def _pass_on(self) -> None:
        self._turns += 1
        places = [place for place in range(len(self.work)) if place not in self._over]
        starting = [place for place in places if place not in self._begun]
        self._cycle = [place for place in self._cycle if place in places]
        if starting:
            self._cycle = starting[:1]
        elif not self._cycle and places:
            least = min(self._had[place] for place in places)
            if self.evenly:
                places = [one for one in places if self._had[one] < least + AHEAD_SECONDS]
            self._cycle = self.source.sample(places, len(places))
        if self._cycle:
            self._turn = self._cycle.pop(0)
        self._changed.notify_all()


@attrs.define(eq=False)
class _Watch:
    """Notices a turn in which nothing computes, of processes that start now."""

    _begun: float = attrs.field(factory=time.monotonic)
    _turns: int = -1
    _since: float = 0.0
    _cpu_seconds: float = 0.0

    def is_idle(self, turns: int) -> bool:
        """Return whether the turn of this number has been idle for too long."""
        now, used = time.monotonic(), _cpu_seconds_of_children()
        seconds = now - self._since
        # what a process has used is gone with it
        may_use = WAITING_CPU_SHARE * max(WAITING_SECONDS, seconds)
        if turns == self._turns and 0 <= used - self._cpu_seconds <= may_use:
            sleep = min(self._since - self._begun, LONGEST_SLEEP_SECONDS)
            return seconds > max(WAITING_SECONDS, sleep)
        self._turns, self._since, self._cpu_seconds = turns, now, used
        return False


def _cpu_seconds_of_children() -> float:
    import psutil

    used = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system
    return used


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
