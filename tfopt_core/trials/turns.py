"""Stop a training between steps whenever its turn is over, and cut it short once it told enough."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns

import attrs

from tfopt_core.statistics.fit_figures import LEAST_STARTS, mean_step
from tfopt_core.training.clock import leave_out_stopped, running_ns
from tfopt_core.training.messages import TURN, Block, Tell
from tfopt_core.workers.task import TurnOver

# A run trains for so long before it is another one's turn.
TURN_SECONDS = 0.5
# The iterator of an epoch that ends waits for a thread of tf.data that sleeps until a time of day
# (docs/decisions/0008), and a stop within the epoch makes that wait another one. So an epoch is one
# turn where its start can be told, and nearly every one of whole trainings.
EPOCH_OF_WHOLE_SECONDS = 60.0


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
    :param warm_seconds: how long it trains behind its start; None trains to the end.
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
    """Say that the turn is over, and stop this process and its children until they are resumed.

    All threads stop: those that prepare input would compute in the other's turn. None of this is
    time that the process has run.
    """
    import psutil

    begin = perf_counter_ns()
    tell(TurnOver(os.getpid()))
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.suspend()
    # sent to this thread, which must not go on until the others have stopped
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    leave_out_stopped(perf_counter_ns() - begin)


def _of_epoch(blocks: Sequence[Block], epoch: int) -> list[Block]:
    return [block for block in blocks if block.epoch == epoch]
