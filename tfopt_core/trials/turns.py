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
from tfopt_core.training.fit_callbacks import IsKnown
from tfopt_core.training.timing.running import leave_out_stopped, running_ns


@attrs.define(eq=False)
class InTurns:
    """Cuts a training short as `rule` does, and stops this process at the end of its turns.

    The first turn ends with the first blocks: before them a training starts, which is timed whole.

    :param rule: None for a training that is not cut short.
    :param seconds: how long a turn is, at least.
    :param tell: told that a turn is over.
    """

    rule: IsKnown | None
    seconds: float
    tell: Tell
    _begun: int | None = None

    def __call__(self, blocks: Sequence[Block]) -> bool:
        """Return whether the training is cut short."""
        if self.rule is not None and self.rule(blocks):
            return True
        if self._begun is None or running_ns() - self._begun >= self.seconds * 1e9:
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
