"""Stop a training between steps whenever its turn is over, so that another one trains meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from time import perf_counter_ns

import attrs

from tfopt_core.records.fit import Block
from tfopt_core.records.messages import Tell, TurnOver
from tfopt_core.statistics.timing.cutting import CutRule, warm_seconds
from tfopt_core.training.timing.running import leave_out_stopped, running_ns

# Short epochs are trained before the first stop: those that end within so many seconds, until so
# many starts of later epochs were seen. Such a start may wait for a thread of tf.data that sleeps
# (docs/decisions/0008), and a stop makes that wait longer. It does not wait each time, so one start
# is too few.
ALONE_SECONDS, ALONE_STARTS = 6.0, 2


@attrs.define(eq=False)
class InTurns:
    """Stops this process at the end of its turns, and cuts its training short.

    The first turn holds the training's start, and those of some epochs if these are short.
    Then both sides train equally long in turns.

    :param rule: says how long, and whether an epoch's end is waited for.
    :param seconds: how long a turn is, at least.
    :param tell: told that a turn is over.
    """

    rule: CutRule
    seconds: float
    tell: Tell
    _alone: float | None = None
    _begun: int = 0

    def __call__(self, blocks: Sequence[Block]) -> bool:
        """Return whether the training is cut short."""
        warm = warm_seconds(blocks)
        if self._alone is None:
            if self.rule.waits_for_epoch(blocks, ALONE_SECONDS - warm, ALONE_STARTS):
                return False
            self._alone = warm
        elif warm - self._alone >= self.rule.longest_seconds:
            return True
        elif running_ns() - self._begun < self.seconds * 1e9:
            return False
        stop_this_process(self.tell)
        self._begun = running_ns()
        return False


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
