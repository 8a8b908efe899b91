"""Time the optimizer updates of a training loop that is the script's own."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import attrs

from tfopt_core.training.clock import running_ns
from tfopt_core.training.messages import Block

# A block lasts at least this long: reading the count waits for the device.
BLOCK_NS = 100_000_000
# The first updates are read one by one, for samples of a short run.
FIRST_READS = 4


@attrs.define(eq=False)
class UpdateClock:
    """Reads how many updates were made, and times them in blocks.

    It may be read whenever a call from Python has returned (a boundary). It is read at the first
    updates, then every `BLOCK_NS`, and where the calls since the last reading may have reached the
    limit: a run ends at the first boundary behind its last update, whatever its pace.

    :param count: returns the updates so far.
    :param traces: returns how often a step was traced so far.
    :param limit: the updates of a run; None for no limit.
    :param on_read: called after each reading.
    :param now: the time in nanoseconds.
    :param started: when the first step began; None before.
    :param blocks: their `cold` is "trace" if a step was traced within them.
    """

    count: Callable[[], int]
    traces: Callable[[], int] = lambda: 0
    limit: int | None = None
    on_read: Callable[[], None] = lambda: None
    now: Callable[[], int] = running_ns
    started: int | None = None
    updates: int = 0
    blocks: list[Block] = attrs.field(factory=list)
    _last: int = 0
    _due: int = 0
    _traced: int = 0
    _calls: int = 0
    _most_a_call: int = 1

    def begin(self, at: int) -> None:
        """Record when the first step began; later calls change nothing."""
        if self.started is None:
            self.started = self._last = at

    def boundary(self) -> None:
        """Read the count if it is due. A call from Python has returned."""
        self._calls += 1
        if self.started is not None and (self.now() >= self._due or self._may_be_over()):
            self.read()

    def read(self) -> None:
        """Read the count, and end a block if there are new updates."""
        assert self.started is not None
        updates, now = self.count(), self.now()
        steps, self.updates = updates - self.updates, updates
        self._most_a_call = max(self._most_a_call, ceil(steps / max(1, self._calls)))
        self._calls = 0
        if steps > 0:  # a script that restores its optimizer may set the count back
            seconds = (now - self._last) / 1e9
            traced = self.traces() > self._traced
            self.blocks.append(Block(steps, seconds, cold="trace" if traced else ""))
            self._last, self._traced = now, self.traces()
        self._due = now + (BLOCK_NS if len(self.warm) >= FIRST_READS else 0)
        self.on_read()

    @property
    def seconds(self) -> float:
        """The time from the begin of the first step to the last reading that saw an update."""
        return 0.0 if self.started is None else (self._last - self.started) / 1e9

    @property
    def warm(self) -> tuple[Block, ...]:
        """The blocks in which no step was traced."""
        return tuple(block for block in self.blocks if not block.cold)

    @property
    def is_over(self) -> bool:
        """Whether all updates of the run were made."""
        return self.limit is not None and self.updates >= self.limit

    def _may_be_over(self) -> bool:
        """Return whether the calls since the last reading may have made all updates left."""
        if self.limit is None:
            return False
        return self.updates + self._calls * self._most_a_call >= self.limit
