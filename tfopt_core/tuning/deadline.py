"""How long a run of a trial trains, and how long a process of one may take."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

import attrs

# A run of a trial is cut after this many seconds of timed steps, or of those in turns.
RUN_SECONDS, RUN_SECONDS_IN_TURNS = 6.0, 3.0
# One process of a trial may take this share of the budget, and at least so many seconds.
PROCESS_SHARE, LEAST_PROCESS_SECONDS = 1 / 6, 120.0


@attrs.define(eq=False)
class ProcessDeadline:
    """Says of the current process of a trial whether it took too long, as `Limits.called_off`.

    :param seconds: how long a process may take.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    _end: float = math.inf
    _reason: str | None = None

    def begin(self) -> None:
        """Note that a process begins."""
        self._end, self._reason = self.now() + self.seconds, None

    def lift(self) -> None:
        """Note that what follows may take as long as it takes."""
        self._end, self._reason = math.inf, None

    def end(self, reason: str) -> None:
        """End the current process for another reason."""
        self._reason = reason

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Have the time of the current process stand still, while another one may have its own."""
        left = self._end - self.now()
        try:
            yield
        finally:
            self._end = self.now() + left

    def __call__(self) -> str | None:
        """Return why to end the process, None if it may go on."""
        if self._reason is not None:
            return self._reason
        return self.too_long if self.now() > self._end else None

    @property
    def too_long(self) -> str:
        """The reason where it is the time."""
        return f"it took more than {self.seconds:.0f} s"


def process_seconds(budget: float) -> float:
    """Return how many seconds a process of a trial may take, with this budget in seconds."""
    return max(LEAST_PROCESS_SECONDS, PROCESS_SHARE * budget)
