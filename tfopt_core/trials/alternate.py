"""The order of an in-run contrast: which of two train functions makes the next call.

Blocks of the two alternate in quads, ABBA or BAAB at random, so that a linear drift cancels within
a quad. No TensorFlow: a state machine that knows calls and a clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import attrs

from tfopt_core.records.in_run import InRun, InRunVerdict, Quad
from tfopt_core.statistics.in_run import conclude, not_compared
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.training.timing.clock import BLOCK_NANOSECONDS, BLOCK_STEPS

# An alternative whose first warm block is slower than this is of no use, whatever the noise.
TOO_SLOW_RATIO = 2.0
# The order of a quad's blocks; the alternative is True.
ABBA, BAAB = (False, True, True, False), (True, False, False, True)


@attrs.define
class BlockTimer:
    """Cuts the calls of one train function into blocks of 10 steps and 20 ms, at least one call.

    A block begins and ends just before a call, so that what `fit` does between two calls is part of
    it. The first call is cold and in no block, as is one that traced.

    :param now: the clock, in nanoseconds.
    :param sync: waits for the device; called at the edges of blocks only.
    """

    now: Callable[[], int]
    sync: Callable[[], None] | None = None
    _warm: bool = False
    _start: int | None = None
    _steps: int = 0

    def before_call(self) -> float | None:
        """Return the seconds a step of a block that has just ended; the next one has begun then."""
        if self._start is None:
            if self._warm:
                self._start = self._edge()
            return None
        if self._steps < BLOCK_STEPS or self.now() - self._start < BLOCK_NANOSECONDS:
            return None
        start, self._start = self._start, self._edge()
        steps, self._steps = self._steps, 0
        return (self._start - start) / 1e9 / steps

    def after_call(self, steps: int, *, traced: bool) -> None:
        """A call has made so many steps."""
        if traced or not self._warm:
            self._warm, self._start, self._steps = True, None, 0
        else:
            self._steps += steps

    def cut(self) -> None:
        """The block under way has no end, and the next call is cold."""
        self._warm, self._start, self._steps = False, None, 0

    @property
    def seconds(self) -> float:
        """Of the block under way, so far."""
        return 0.0 if self._start is None else (self.now() - self._start) / 1e9

    def _edge(self) -> int:
        if self.sync is not None:
            self.sync()
        return self.now()


def block_steps(step_seconds: float, steps_per_call: int = 1) -> int:
    """Return the steps that a block takes at this speed, in whole calls."""
    steps = max(BLOCK_STEPS, math.ceil(BLOCK_NANOSECONDS / 1e9 / step_seconds))
    return math.ceil(steps / steps_per_call) * steps_per_call


@attrs.define(eq=False)
class InRunContrast:
    """Which of two train functions makes the next call, until their difference is known.

    Ask `choose` before each call, and tell the timer of the call after it, and of an epoch's edge.

    :param level: the two-sided nominal level of an interval at a look.
    :param source: draws each quad's order.
    :param alternative_steps: steps that a call of the alternative makes.
    :param reference_step_seconds: of a step of the reference, as last seen; None where unknown.
    :param widest: see `tfopt_core.statistics.in_run.conclude`.
    :param screen: whether the alternative's first block is enough, which tells if it is hopeless.
    :param result: set once there is one.
    """

    alternative: str
    reference: str
    level: float
    source: random.Random
    timer: BlockTimer
    alternative_steps: int = 1
    reference_step_seconds: float | None = None
    widest: float = math.inf
    screen: bool = False
    result: InRun | None = None
    quads: list[Quad] = attrs.field(factory=list)
    _order: tuple[bool, ...] = ABBA
    _blocks: list[float] = attrs.field(factory=list)
    _seen: bool = False

    def __attrs_post_init__(self) -> None:
        self._order = self._drawn()

    def choose(self) -> bool:
        """Return whether the alternative makes the next call, unless there is a `result` now."""
        step_seconds = self.timer.before_call()
        if step_seconds is not None:
            self._end_block(step_seconds)
        elif self._turn and not self._seen and self._hopeless():
            self._drop()
        return self._turn

    def end(self, reason: str) -> InRun:
        """No more blocks: what is known by now."""
        self.result = self.result or conclude(
            self.alternative, self.reference, self.quads, self.level, ended=reason
        )
        assert self.result is not None
        return self.result

    @property
    def _turn(self) -> bool:
        return self._order[len(self._blocks)]

    def _drawn(self) -> tuple[bool, ...]:
        return self.source.choice((ABBA, BAAB))

    def _end_block(self, step_seconds: float) -> None:
        alternative = self._turn
        if not alternative:
            self.reference_step_seconds = step_seconds
        elif not self._seen:
            self._seen = True
            reference = self.reference_step_seconds
            if reference is not None and step_seconds > TOO_SLOW_RATIO * reference:
                self._drop()
            elif self.screen:
                self.result = not_compared(
                    self.alternative, self.reference, "it is not far behind",
                    verdict=InRunVerdict.SCREENED,
                )  # fmt: skip
        self._blocks.append(step_seconds)
        if len(self._blocks) == len(self._order):
            self.quads.append(Quad(self._order, tuple(self._blocks)))
            self._blocks, self._order = [], self._drawn()
            if len(self.quads) in LOOKS and self.result is None:
                self.result = conclude(
                    self.alternative, self.reference, self.quads, self.level, widest=self.widest
                )
        if self._turn != alternative:
            self.timer.cut()

    def _hopeless(self) -> bool:
        """Return whether the first block has lasted so long that it can only end too slow."""
        if self.reference_step_seconds is None:
            return False
        steps = block_steps(self.reference_step_seconds, self.alternative_steps)
        return self.timer.seconds > TOO_SLOW_RATIO * steps * self.reference_step_seconds

    def _drop(self) -> None:
        self.result = not_compared(
            self.alternative, self.reference,
            f"its first block is already more than {TOO_SLOW_RATIO:.0f} times slower a step than "
            f"{self.reference}",
            self.quads, verdict=InRunVerdict.DROPPED,
        )  # fmt: skip
