"""Have processes train in turns: one goes on while the others are stopped.

The speed of a machine that others share changes within seconds, so that trainings that follow one
another are compared under unlike conditions. A process stops itself between steps once its turn is
over, and the one that started it passes the turn on.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from time import perf_counter_ns
from typing import Generic, TypeVar

import attrs

from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.recipe.model import Objective, WorkloadSpec
from tfopt_core.statistics.fit_figures import LEAST_STARTS, mean_step
from tfopt_core.training.clock import leave_out_stopped, running_ns
from tfopt_core.training.messages import TURN, Block, Message, Tell
from tfopt_core.workers.interrupts import HoldInterrupt
from tfopt_core.workers.task import TurnOver

Result = TypeVar("Result")
# A run trains for so long before it is another one's turn.
TURN_SECONDS = 0.25
# The iterator of an epoch that ends waits for a thread of tf.data that sleeps until a time of day
# (docs/decisions/0008), and a stop within the epoch makes that wait another one. So an epoch is one
# turn where its start can be told, and nearly every one of whole trainings.
EPOCH_OF_WHOLE_SECONDS = 60.0
LOOK_SECONDS = 0.001
# A process that has had so much more time than another one waits: about a turn.
AHEAD_SECONDS = 0.25
# The next process starts where this many times the memory of the first one is free: what follows
# its start, such as a validation, may need more.
FREE_MEMORY = 1.5
# A turn of so many seconds, twenty turns, in which the CPUs did next to nothing waits for what a
# stopped process holds, such as a lock or a port. Or it waits for tf.data's tuning thread, whose
# sleeps double up to a minute: none is longer than the thread has lived.
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
        with HoldInterrupt():  # a second Ctrl-C would leave processes for which the threads wait
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
        _signal_all(pid, signal.SIGSTOP)  # its children, too
        if place in self._resumed:  # the first turn is the start
            self._had[place] += time.monotonic() - self._resumed[place]
        if len(self._begun) == len(self.work) or _has_room_for_another(pid):
            with self._changed:
                self._pass_on()
            self._await_turn(place)
        self._resumed[place] = time.monotonic()
        _signal_all(pid, signal.SIGCONT)

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


def _signal_all(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process and its children: to its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), number)


# The process that trains


@attrs.define(eq=False)
class Turn:
    """The turns of this process.

    :param tell: told that a turn is over.
    """

    tell: Tell
    _begun: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether the turn is over. The first one holds the start and ends at once."""
        return self._begun is None or running_ns() - self._begun >= TURN_SECONDS * 1e9

    def end(self) -> None:
        """Stop until the next turn comes."""
        stop_this_process(self.tell)
        self._begun = running_ns()


@attrs.define(kw_only=True, eq=False)
class Pacing:
    """Stops this process at the ends of its turns, and decides when its training is cut short.

    The first turn holds the training's start up to its first warm step, and its first epoch if that
    is short; so all sides are past that when they take turns.

    :param epochs: the epochs of the whole training.
    :param steps_per_epoch: the steps of an epoch, None if unknown.
    :param warm_seconds: how long it trains after its start; None trains to the end.
    :param turn: its turns; None where it takes none.
    """

    epochs: int
    steps_per_epoch: int | None
    warm_seconds: float | None = None
    turn: Turn | None = None
    now: Callable[[], int] = running_ns
    _started: int | None = None

    def __call__(self, blocks: Sequence[Block]) -> bool:
        """Return whether the training is cut short. Called between steps, and stops there."""
        if self._started is None:
            if blocks[-1].cold not in ("", TURN) or self._is_whole(blocks):
                return False
            self._started = self.now()
        seconds = (self.now() - self._started) / 1e9
        if self.warm_seconds is not None and seconds >= self.warm_seconds:
            return True
        if self.turn is not None and self.turn.is_over and not self._is_whole(blocks):
            self.turn.end()
        return False

    def _is_whole(self, blocks: Sequence[Block]) -> bool:
        """Return whether the epoch under way is not interrupted. At its first block it may be."""
        epoch = blocks[-1].epoch
        begins = epoch > blocks[0].epoch and len(_of_epoch(blocks[-2:], epoch)) == 1
        if self.epochs == 1 or begins:
            return False
        return self._epoch_seconds(blocks) <= longest_uninterrupted(self.epochs, self.warm_seconds)

    def _epoch_seconds(self, blocks: Sequence[Block]) -> float:
        """Return about how long the steps of the epoch under way take; infinity if unknown."""
        step, before = mean_step(blocks), _of_epoch(blocks, blocks[-1].epoch - 1)
        steps = sum(block.steps for block in before) if before else self.steps_per_epoch
        return math.inf if step is None or steps is None else steps * step


def longest_uninterrupted(epochs: int, warm_seconds: float | None) -> float:
    """Return how many seconds an epoch takes at most that is one turn, of at least two epochs."""
    if warm_seconds is None:
        return EPOCH_OF_WHOLE_SECONDS
    return warm_seconds / min(LEAST_STARTS, epochs - 1)


def first_warm_steps(blocks: Sequence[Block]) -> bool:
    """Return whether a block of steps has ended behind those that were traced: when a run ends that
    is made for its peak memory."""
    return any(not block.cold for block in blocks)


def stop_this_process(tell: Tell) -> None:
    """Say that the turn is over, and stop this process until it is resumed.

    All threads stop: those that prepare input would compute in the other's turn. None of this is
    time that the process has run. The process that is told stops the children.
    """
    begin = perf_counter_ns()
    tell(TurnOver(os.getpid()))
    # sent to this thread, which must not go on before it stops
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    leave_out_stopped(perf_counter_ns() - begin)


def _of_epoch(blocks: Sequence[Block], epoch: int) -> list[Block]:
    return [block for block in blocks if block.epoch == epoch]
