"""Choose call by call which of two train functions trains, in ABBA blocks within one training.

Blocks of the two alternate in quads, ABBA or BAAB at random, so that a linear drift cancels within
a quad. It is a state machine over calls and a clock. No TensorFlow.
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

# An alternative whose first warm block is slower than this is dropped: no noise explains it.
TOO_SLOW_RATIO = 2.0
# The order of a quad's blocks; True is the alternative.
ABBA, BAAB = (False, True, True, False), (True, False, False, True)


@attrs.define
class BlockTimer:
    """Divides the calls of one train function into blocks of at least 10 steps and 20 ms.

    A block begins and ends just before a call, so that the time of `fit` between two calls is part
    of it. The first call and calls that trace are cold and in no block.

    :param now: the clock, in nanoseconds.
    :param sync: waits for the device; called at the edges of blocks only.
    """

    now: Callable[[], int]
    sync: Callable[[], None] | None = None
    _warm: bool = False
    _start: int | None = None
    _steps: int = 0

    def before_call(self) -> float | None:
        """Return the seconds a step of a block that has just ended, None if none has."""
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
        """Note that a call has made this many steps."""
        if traced or not self._warm:
            self._warm, self._start, self._steps = True, None, 0
        else:
            self._steps += steps

    def cut(self) -> None:
        """Drop the current block. The next call is cold."""
        self._warm, self._start, self._steps = False, None, 0

    @property
    def seconds(self) -> float:
        """The seconds of the current block so far."""
        return 0.0 if self._start is None else (self.now() - self._start) / 1e9

    def _edge(self) -> int:
        if self.sync is not None:
            self.sync()
        return self.now()


def block_steps(step_seconds: float, steps_per_call: int = 1) -> int:
    """Return the steps of a block at this speed, in whole calls."""
    steps = max(BLOCK_STEPS, math.ceil(BLOCK_NANOSECONDS / 1e9 / step_seconds))
    return math.ceil(steps / steps_per_call) * steps_per_call


@attrs.define(eq=False)
class InRunContrast:
    """Chooses which of two train functions makes the next call, until their difference is known.

    Call `choose` before each call, and the timer's methods after it and at an epoch's edge.

    :param level: the two-sided nominal level of an interval at a look.
    :param source: draws each quad's order.
    :param alternative_steps: the steps that a call of the alternative makes.
    :param reference_step_seconds: the last seconds of a step of the reference, None if unknown.
    :param widest: see `tfopt_core.statistics.in_run.conclude`.
    :param screen: whether to end after the alternative's first block, unless that is too slow.
    :param result: the result, None until it is known.
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
        """Return whether the alternative makes the next call, unless `result` is set now."""
        step_seconds = self.timer.before_call()
        if step_seconds is not None:
            self._end_block(step_seconds)
        elif self._turn and not self._seen and self._is_too_slow():
            self._drop()
        return self._turn

    def end(self, reason: str) -> InRun:
        """End the contrast and return the result of the blocks so far."""
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

    def _is_too_slow(self) -> bool:
        """Return whether the first block already takes so long that it must end too slow."""
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
