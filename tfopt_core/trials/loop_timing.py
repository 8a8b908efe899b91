"""Time a step in each of several loops, in turns, since the machine's speed drifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from tfopt_core.training.loops.train_functions import keras_function, loop_of, made_function
from tfopt_core.training.timing.clock import BLOCK_NANOSECONDS, BLOCK_STEPS
from tfopt_core.training.timing.devices import device_sync

# A loop is timed for about this long, in at least FEWEST and at most MOST blocks.
SECONDS, FEWEST, MOST = 1.0, 3, 40
# A loop whose best block is this many times slower than the best of all is dropped: after its first
# block, which a busy machine may have slowed, and after its second. If a cold call takes longer
# than the limit, that call is enough: XLA's convolutions on a CPU are that slow.
TOO_SLOW_RATIOS, TOO_SLOW_CALL_SECONDS = (6.0, 2.0), 0.5
# Slow steps are timed in fewer and shorter blocks: at most this many times the seconds in all, and
# this many seconds for a block. A cold call that takes longer counts as a block: with steps of
# 20 s it is not made once more.
AT_MOST, LONGEST_BLOCK = 4.0, 1.0
# The first call traces; the second may still fill a cache or a buffer.
COLD_CALLS = 2
# A call of a resident loop may be a whole epoch. A timed call begins with one step and grows until
# it takes this long, so that its start (about 0.5 ms) does not matter.
CALL_SECONDS = 0.1
# The most steps of a timed call of another loop, even if a training makes more.
PROBED_STEPS = 64


@attrs.frozen
class LoopTime:
    """The median seconds of a steady step in a loop, and the seconds of its steady steps in all.

    `step_seconds` is infinite for a loop that cannot train the model; `why_not` says why.
    `set_up_seconds` are those of building and tracing it, where it was built to be timed.
    """

    loop: Loop
    step_seconds: float
    seconds: float
    why_not: str = ""
    set_up_seconds: float = 0.0


def time_loops(
    built: Built,
    loops: Sequence[Loop],
    seconds: float = SECONDS,
    now: Callable[[], int] = perf_counter_ns,
) -> list[LoopTime]:
    """Time the steady steps of each loop, in turns. Return one figure for each.

    All loops train the same model on the same data, a block each in turn. A loop that cannot train
    the model or is far behind is dropped. A resident loop makes fewer steps a call than its own if
    these would take longer than `CALL_SECONDS`.

    :param seconds: about how long to time each loop; slow steps take up to `AT_MOST` times as long.
    :raises Exception: whatever the loop raises, if there is only one.
    """
    shared = _shared(built)
    timings = [_Timing(built, loop, now, shared) for loop in loops]
    iterator = _endless(built, shared)
    with wrapped_step(built):
        for timing in timings:
            try:
                timing.begin(iterator)
            except Exception as error:
                if len(timings) == 1:
                    raise
                timing.why_not = f"its first call {describe(error)}"
        return _in_turns(timings, seconds)


def time_builds(
    builds: Sequence[Callable[[], Built]],
    seconds: float = SECONDS,
    now: Callable[[], int] = perf_counter_ns,
) -> list[LoopTime]:
    """Time the steady steps of several trainings, each in its own loop, in turns.

    They may share a model, as those of a script do: each is traced before the next one is built.

    :param builds: each builds a training. One that cannot be built or traced gets infinite seconds.
    :param seconds: as in `time_loops`.
    """
    timings = []
    for build in builds:
        loop, begun = Loop(1, False), now()
        try:
            built = build()
            loop = loop_of(built)
            if loop.kind != "resident":  # whose timed calls are short anyway
                loop = attrs.evolve(loop, steps=min(loop.steps, PROBED_STEPS))
            timing = _Timing(built, loop, now, _shared(built))
            with wrapped_step(built):
                timing.begin(_endless(built, timing.shared))
            timing.set_up_seconds = (now() - begun) / 1e9
        except Exception as error:
            timing = _Timing(None, loop, now, why_not=describe(error))
        timings.append(timing)
    return _in_turns(timings, seconds)


@contextmanager
def wrapped_step(built: Built) -> Iterator[None]:
    """Set the step that the plugins wrap as the model's own in this block, as a training does."""
    wrap, attributes = built.training.wrap_train_step, vars(built.model)
    if wrap is None:
        yield
        return
    before = attributes.get("train_step")
    attributes["train_step"] = wrap(built.model.train_step)
    try:
        yield
    finally:
        if before is None:
            del attributes["train_step"]
        else:
            attributes["train_step"] = before


def _in_turns(timings: Sequence[_Timing], seconds: float) -> list[LoopTime]:
    """Time blocks of each in turn, dropping what is far behind. Return one figure for each."""
    for number in range(MOST):
        going = [t for t in timings if not t.why_not and not _too_slow(t, timings)]
        spent, least = sum(timing.seconds for timing in timings), seconds * len(going)
        enough = number >= FEWEST and spent > least
        slow = all(timing.step_seconds for timing in going) and spent > AT_MOST * least
        if not going or enough or slow:
            break
        for timing in going:
            timing.block()
    return [timing.result() for timing in timings]


def _too_slow(timing: _Timing, timings: Sequence[_Timing]) -> bool:
    blocks = len(timing.step_seconds)
    if not blocks:
        best = min(other.cold_step for other in timings if not other.why_not)
        return (
            timing.cold_call > TOO_SLOW_CALL_SECONDS
            and timing.cold_step > TOO_SLOW_RATIOS[0] * best
        )
    best = min(
        min(other.step_seconds or [other.cold_step]) for other in timings if not other.why_not
    )
    return min(timing.step_seconds) > TOO_SLOW_RATIOS[min(blocks, len(TOO_SLOW_RATIOS)) - 1] * best


@attrs.define(eq=False)
class _Timing:
    """One loop and its blocks so far.

    :param cold_call: the seconds of its last cold call.
    :param cold_step: the seconds of a step in that call.
    :param seconds: the seconds of all its blocks, and of the calls that determined their length.
    """

    built: Any
    loop: Loop
    now: Callable[[], int]
    shared: Synchronous | None = None
    why_not: str = ""
    cold_call: float = 0.0
    cold_step: float = 0.0
    set_up_seconds: float = 0.0
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
        self.make_cold_calls()

    def make_cold_calls(self) -> None:
        """Make the calls that trace. The last of them is a block if it takes long enough."""
        for _ in range(COLD_CALLS):
            self.cold_call, steps = self._timed_call()
            self.cold_step = self.cold_call / steps
        if self.cold_call > LONGEST_BLOCK:
            self.seconds, self.step_seconds = self.cold_call, [self.cold_step]

    def block(self) -> None:
        """Time a block of at least 10 steps, 20 ms and one call, or fewer steps if they are
        slow."""
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

    def result(self) -> LoopTime:
        """Return the figures, those of a cold call for a loop that is too slow for a block."""
        if self.why_not:
            return LoopTime(self.loop, math.inf, 0.0, self.why_not)
        step_seconds = median(self.step_seconds or [self.cold_step])
        return LoopTime(
            self.loop, step_seconds, self.seconds, set_up_seconds=self.set_up_seconds
        )  # fmt: skip

    def _grow(self) -> None:
        """Determine how many steps a timed call of a resident loop makes."""
        function, self._grows = self._grows, None
        while function is not None and function.steps < self.loop.steps:
            seconds, _ = self._timed_call()
            self.seconds += seconds
            if seconds > CALL_SECONDS / 2:
                return
            function.steps = min(self.loop.steps, 2 * function.steps)

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
            # Keras reads this when it traces; setting it as an attribute of a layer is slow
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
    """Return the distribution among replicas, now in effect; None for one device.

    It is not undone, since the model is thrown away after the timing.
    """
    distribution = distribution_of(built)
    if not isinstance(distribution, Synchronous):
        return None
    distribution.install()
    return distribution


def _calling_replicas(shared: Synchronous, loop: Loop, iterator: Any) -> Callable[[], int]:
    """Return a function that makes one call over all replicas and returns its steps.

    :raises ValueError: for a loop that does not train over replicas.
    """
    if loop.kind != "keras" or loop.jit_compile:
        raise ValueError(f"{loop.name}: not over several replicas")
    function = shared.endless_function(loop.steps)

    def call() -> int:
        function(iterator)
        return loop.steps

    return call


def _an_iterator() -> Any:
    """Return a new iterator: a resident loop begins an epoch with it, and takes nothing from it."""
    import tensorflow as tf

    return iter(tf.data.Dataset.range(1))


def _endless(built: Built, shared: Synchronous | None) -> Any:
    """Return an endless iterator over the training data, which all loops share."""
    import tensorflow as tf

    if shared is not None:
        return iter(shared.data("train", endless=True))
    dataset = built.run.datasets["train"]
    if not isinstance(dataset, tf.data.Dataset):  # a PyDataset, read one batch after another
        dataset = lower_stages(built.plans["train"].stages)
    with built.run.strategy.scope():
        return iter(built.run.strategy.experimental_distribute_dataset(dataset.repeat()))
