"""Time the optimizer updates of a training loop that is the script's own."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

import attrs

from tfopt_core.records.fit import Block

# A block lasts at least this long: reading the count waits for the device.
BLOCK_NS = 100_000_000
# The first updates are read one by one, for their pace.
FIRST_READS = 4


@attrs.define(eq=False)
class UpdateClock:
    """Reads how many updates were made, and times them in blocks.

    It may be read whenever a call from Python has returned (a boundary). It is read at the first
    updates, then every `BLOCK_NS`, and more often where the limit is near, so that a run ends at
    the first boundary behind its last update.

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
    now: Callable[[], int] = perf_counter_ns
    started: int | None = None
    updates: int = 0
    blocks: list[Block] = attrs.field(factory=list)
    _last: int = 0
    _due: int = 0
    _traced: int = 0
    _fastest: float = float("inf")

    def begin(self, at: int) -> None:
        """Record when the first step began; later calls change nothing."""
        if self.started is None:
            self.started = self._last = at

    def boundary(self) -> None:
        """Read the count if it is due. A call from Python has returned."""
        if self.started is not None and self.now() >= self._due:
            self.read()

    def read(self) -> None:
        """Read the count, and end a block if there are new updates."""
        assert self.started is not None
        updates, now = self.count(), self.now()
        steps, self.updates = updates - self.updates, updates
        if steps > 0:  # a script that restores its optimizer may set the count back
            seconds = (now - self._last) / 1e9
            traced = self.traces() > self._traced
            self.blocks.append(Block(steps, seconds, cold="trace" if traced else ""))
            self._last, self._traced = now, self.traces()
            if not traced:
                self._fastest = min(self._fastest, seconds / steps)
        self._due = now + self._until_the_next()
        self.on_read()

    @property
    def seconds(self) -> float:
        """The time from the begin of the first step to the last reading that saw an update."""
        return 0.0 if self.started is None else (self._last - self.started) / 1e9

    @property
    def warm(self) -> tuple[Block, ...]:
        """The blocks in which no step was traced."""
        return tuple(block for block in self.blocks if not block.cold)

    def _until_the_next(self) -> int:
        """Return the nanoseconds until the next reading is due."""
        if len(self.warm) < FIRST_READS:
            return 0
        if self.limit is None:
            return BLOCK_NS
        # half of the time that the updates left would take at the fastest pace so far
        left = max(0, self.limit - self.updates)
        return min(BLOCK_NS, int(left * self._fastest * 1e9 / 2))
