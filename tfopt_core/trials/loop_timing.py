"""Time a step in each of several loops, in turns, since the machine's speed drifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.data.lower import lower_stages
from tfopt_core.errors import describe
from tfopt_core.statistics.intervals import median
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import Synchronous, distribution_of
from tfopt_core.training.loops.exact_loops import Loop
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.train_functions import keras_function, made_function
from tfopt_core.training.timing.clock import BLOCK_NANOSECONDS, BLOCK_STEPS
from tfopt_core.training.timing.devices import device_sync

# A loop is timed for so many seconds, but at least and at most for so many blocks.
SECONDS, FEWEST, MOST = 1.0, 3, 40
# A loop whose best block is so many times slower than the best of all makes no other: after its
# first block, which a busy machine may have hit, and after its second. Where a single cold call
# takes so many seconds, that call is enough: XLA's convolutions on a CPU are that slow.
TOO_SLOW_RATIOS, TOO_SLOW_CALL_SECONDS = (6.0, 2.0), 0.5
# Where steps are slow, fewer blocks and shorter ones must do: so many times the seconds in all, and
# so many for a block.
AT_MOST, LONGEST_BLOCK = 4.0, 1.0
# The first call traces; the second may still fill a cache or a buffer.
COLD_CALLS = 2
# A call of a resident loop may be a whole epoch. A timed one begins with one step and grows until
# it takes so long: starting it (about 0.5 ms) is lost in that, and more tell nothing new.
CALL_SECONDS = 0.1


@attrs.frozen
class LoopTime:
    """The median seconds of a steady step in a loop, and how long its steady steps took together.

    `step_seconds` is infinite for a loop that cannot train the model; `why_not` says why.
    """

    loop: Loop
    step_seconds: float
    seconds: float
    why_not: str = ""


def time_loops(
    built: Built,
    loops: Sequence[Loop],
    seconds: float = SECONDS,
    now: Callable[[], int] = perf_counter_ns,
) -> list[LoopTime]:
    """Time the steady steps of each loop, in turns. Return one figure for each.

    One that cannot train the model is left out, with the reason.

    All train the same model on the same data, one block after another in each round. A loop that
    is far behind makes no more of them. A resident loop makes fewer steps a call than its own where
    those would take longer than `CALL_SECONDS`.

    :param seconds: about how long to time each loop; slow steps take up to `AT_MOST` times as long.
    :raises Exception: whatever the only loop raises, where there is but one.
    """
    shared = _shared(built)
    timings = [_Timing(built, loop, now, shared) for loop in loops]
    iterator = _endless(built, shared)
    for timing in timings:
        try:
            timing.begin(iterator)
        except Exception as error:
            if len(timings) == 1:
                raise
            timing.why_not = f"its first call {describe(error)}"
    for number in range(MOST):
        going = [t for t in timings if not t.why_not and not _hopeless(t, timings)]
        spent, least = sum(timing.seconds for timing in timings), seconds * len(going)
        enough = number >= FEWEST and spent > least
        if not going or enough or (number and spent > AT_MOST * least):
            break
        for timing in going:
            timing.block()
    return [timing.found() for timing in timings]


def _hopeless(timing: _Timing, timings: Sequence[_Timing]) -> bool:
    blocks = len(timing.step_seconds)
    if not blocks:
        best = min(other.cold_step for other in timings if not other.why_not)
        return (
            timing.cold_call > TOO_SLOW_CALL_SECONDS
            and timing.cold_step > TOO_SLOW_RATIOS[0] * best
        )
    best = min(min(other.step_seconds) for other in timings if other.step_seconds)
    return min(timing.step_seconds) > TOO_SLOW_RATIOS[min(blocks, len(TOO_SLOW_RATIOS)) - 1] * best


@attrs.define(eq=False)
class _Timing:
    """One loop and its blocks so far.

    :param cold_call, cold_step: seconds of its last cold call, and of a step in that.
    :param seconds: of all its blocks, and of the calls before them that found out how long a call
        should be.
    """

    built: Built
    loop: Loop
    now: Callable[[], int]
    shared: Synchronous | None = None
    why_not: str = ""
    cold_call: float = 0.0
    cold_step: float = 0.0
    seconds: float = 0.0
    step_seconds: list[float] = attrs.field(factory=list)
    _call: Callable[[], int] = lambda: 0
    _grows: ResidentFunction | None = None
    _sync: Callable[[], None] | None = None

    def begin(self, iterator: Any) -> None:
        """Make the function and its cold calls."""
        self._sync = device_sync(self.built.run.machine)
        if self.shared is not None:
            self._call = _calling_replicas(self.shared, self.loop, iterator)
        elif self.loop.kind == "resident":
            self._grows = _resident(self.built, self.loop)
            self._call = _calling_resident(self._grows)
        else:
            self._call = _calling(self.built, self.loop, iterator)
        for _ in range(COLD_CALLS):
            self.cold_call, steps = self._timed_call()
            self.cold_step = self.cold_call / steps

    def block(self) -> None:
        """At least 10 steps, 20 ms and one call; fewer steps where they take `LONGEST_BLOCK`."""
        self._grow()
        seconds, steps = 0.0, 0
        start = self._edge()
        while steps < BLOCK_STEPS or seconds < BLOCK_NANOSECONDS / 1e9:
            steps += self._call()
            seconds = (self.now() - start) / 1e9
            if seconds > LONGEST_BLOCK:
                break
        seconds = (self._edge() - start) / 1e9
        self.seconds += seconds
        self.step_seconds.append(seconds / steps)

    def found(self) -> LoopTime:
        """Return the figures; of a loop that is too slow for a block, those of a cold call."""
        if self.why_not:
            return LoopTime(self.loop, math.inf, 0.0, self.why_not)
        return LoopTime(self.loop, median(self.step_seconds or [self.cold_step]), self.seconds)

    def _grow(self) -> None:
        """Find how many steps of a resident loop a timed call makes."""
        made, self._grows = self._grows, None
        while made is not None and made.steps < self.loop.steps:
            seconds, _ = self._timed_call()
            self.seconds += seconds
            if seconds > CALL_SECONDS / 2:
                return
            made.steps = min(self.loop.steps, 2 * made.steps)

    def _timed_call(self) -> tuple[float, int]:
        start = self._edge()
        steps = self._call()
        return (self._edge() - start) / 1e9, steps

    def _edge(self) -> int:
        if self._sync is not None:
            self._sync()
        return self.now()


def _calling(built: Built, loop: Loop, iterator: Any) -> Callable[[], int]:
    """Return a function that makes one call of this loop and returns its number of steps."""
    if loop.kind == "keras":
        function = keras_function(built, loop.jit_compile)
        attributes = vars(built.model)

        def call_keras() -> int:
            # Keras reads this when it traces, and attributes of a layer are slow to set
            before, attributes["steps_per_execution"] = built.model.steps_per_execution, loop.steps
            function(iterator)
            attributes["steps_per_execution"] = before
            return loop.steps

        return call_keras
    function = made_function(built, loop)

    def call_chunked() -> int:
        function(iterator)
        return function.report.last_call

    return call_chunked


def _resident(built: Built, loop: Loop) -> ResidentFunction:
    """Return the train function of a resident loop, with one step a call at first."""
    function = made_function(built, loop)
    assert isinstance(function, ResidentFunction)
    function.steps = 1
    return function


def _calling_resident(function: ResidentFunction) -> Callable[[], int]:
    """Return a function that makes one call over data on the device and returns its steps."""
    epoch = _an_iterator()

    def call_resident() -> int:
        nonlocal epoch
        try:
            function(epoch)
        except StopIteration:
            epoch = _an_iterator()
            function(epoch)
        return function.report.last_call

    return call_resident


def _shared(built: Built) -> Synchronous | None:
    """How the training is shared out among replicas, in effect from now on; None for one device.

    What is timed is thrown away, so nothing is put back.
    """
    distribution = distribution_of(built)
    if not isinstance(distribution, Synchronous):
        return None
    distribution.install()
    return distribution


def _calling_replicas(shared: Synchronous, loop: Loop, iterator: Any) -> Callable[[], int]:
    """:raises ValueError: for a loop that does not train over replicas."""
    if loop.kind != "keras" or loop.jit_compile:
        raise ValueError(f"{loop.name}: not over several replicas")
    function = shared.endless_function(loop.steps)

    def call() -> int:
        function(iterator)
        return loop.steps

    return call


def _an_iterator() -> Any:
    """Any new iterator: a resident loop takes it for a new epoch, and nothing from it."""
    import tensorflow as tf

    return iter(tf.data.Dataset.range(1))


def _endless(built: Built, shared: Synchronous | None) -> Any:
    """Return an endless iterator over the training data; one for all, as a cache may allow."""
    import tensorflow as tf

    if shared is not None:
        return iter(shared.data("train", endless=True))
    dataset = built.run.datasets["train"]
    if not isinstance(dataset, tf.data.Dataset):  # a PyDataset; its batches, one after another
        dataset = lower_stages(built.plans["train"].stages)
    with built.run.strategy.scope():
        return iter(built.run.strategy.experimental_distribute_dataset(dataset.repeat()))
