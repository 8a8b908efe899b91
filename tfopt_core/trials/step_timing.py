"""Time a step of several trainings, in turns, since the machine's speed drifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from threading import Thread
from time import monotonic, perf_counter_ns
from typing import Any, Literal

import attrs

from tfopt_core.data.lower import lower_stages
from tfopt_core.data.stage import changes
from tfopt_core.data.stages import Autotune, before_copy
from tfopt_core.errors import describe
from tfopt_core.lazy import tf
from tfopt_core.training.build import Built, build_state
from tfopt_core.training.clock import BLOCK_NANOSECONDS, BLOCK_STEPS
from tfopt_core.training.distributed.distribution import Synchronous, distribution_of
from tfopt_core.training.loops.report import Loop
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.train_functions import keras_function, loop_of, made_function
from tfopt_core.training.runtime import device_sync

# A step is timed for about this long, in at least FEWEST and at most MOST blocks.
SECONDS, FEWEST, MOST = 0.5, 3, 40
# A loop whose best block is this many times slower than the best of all is dropped: after its first
# block, which a busy machine may have slowed, and after its second. If a cold call takes longer
# than the limit, that call is enough: XLA's convolutions on a CPU are that slow.
TOO_SLOW_RATIOS, TOO_SLOW_CALL_SECONDS = (6.0, 2.0), 0.5
# Slow steps are timed in fewer and shorter blocks: at most this many times the seconds in all, and
# this many seconds for a block. A cold call that takes longer counts as a block: with steps of
# 20 s it is not made once more.
AT_MOST, LONGEST_BLOCK = 4.0, 1.0
# The first call traces; the second may still fill a buffer.
COLD_CALLS = 2
# A cache is filled for at most so many seconds before steps are timed.
FILL_SECONDS = 5.0
# Where only the fastest is asked for, the others are timed no further once each of at least so many
# of their blocks took so many times as long as the fastest one's of the same turn.
CLEAR_TURNS, CLEAR_RATIO = 4, 1.15
# A call of a resident loop may be a whole epoch. A timed call begins with one step and grows until
# it takes this long, so that its start (about 0.5 ms) does not matter.
CALL_SECONDS = 0.1
# The most steps of a timed call of another loop, even if a training makes more.
PROBED_STEPS = 64
# Several steps a call are not timed where one call takes longer: these steps are so slow that what
# is saved between them is below what can be told apart, and hundreds of them would be made.
LONGEST_CALL_SECONDS = 3.0


def time_steps(
    builds: Sequence[Callable[[], Built]],
    seconds: float = SECONDS,
    now: Callable[[], int] = perf_counter_ns,
    *,
    choosing: bool = False,
) -> list[StepTiming]:
    """Time the steady steps of several trainings, each in its own loop, a block each in turn.

    One that cannot be traced or is far behind is dropped, and so is a later one whose call would
    take longer than `LONGEST_CALL_SECONDS` if none of as many steps was timed before: its seconds
    are infinite. A resident loop makes fewer steps a call than its own if these would take longer
    than `CALL_SECONDS`.

    :param builds: each builds a training. They may share a model, as those of a script do: each is
        traced before the next one is built.
    :param seconds: about how long to time each; slow steps take up to `AT_MOST` times as long.
    :param choosing: whether to stop as soon as it is clear which one is the fastest.
    :returns: one for each.
    :raises Exception: whatever it raises, if there is only one.
    """
    timings: list[StepTiming] = []
    for build in builds:
        timing, begun = StepTiming(now), now()
        try:
            built = build()
            timing.loop = loop = loop_of(built)
            if loop.kind != "resident":  # whose timed calls are short anyway
                timing.loop = attrs.evolve(loop, steps=min(loop.steps, PROBED_STEPS))
            timing.too_long = _too_long_a_call(timing.loop, timings)
            if not timing.too_long:
                timing.begin(built, timings)
            timing.set_up_seconds = (now() - begun) / 1e9
        except Exception as error:
            if len(builds) == 1:
                raise
            timing.why_not = describe(error)
        timings.append(timing)
    _in_turns([timing for timing in timings if not timing.too_long], seconds, choosing=choosing)
    # the end of an iterator may wait for tf.data's tuning thread, as long as it has lived
    held = [part for timing in timings for part in timing.let_go()]
    Thread(target=held.clear, daemon=True).start()
    return timings


def _too_long_a_call(loop: Loop, timings: Sequence[StepTiming]) -> bool:
    """Return whether a call takes too long, by the steps of the loops that were called before."""
    called = [timing for timing in timings if not timing.why_not and not timing.too_long]
    if not called or loop.steps == 1 or loop.kind == "resident":
        return False
    # with XLA it is compared with the same loop without
    if any(t.loop.steps >= loop.steps and t.loop.kind != "resident" for t in called):
        return False
    return loop.steps * min(timing.cold_step for timing in called) > LONGEST_CALL_SECONDS


@contextmanager
def wrapped_step(built: Built, kind: Literal["train", "test"] = "train") -> Iterator[None]:
    """Set the step that the plugins wrap as the model's own in this block, as a training does.

    :param kind: "test" for that of validations, which are traced anew.
    """
    model, wrap = built.model, getattr(built.training, f"wrap_{kind}_step")
    if wrap is None:
        yield
        return
    attributes, name, test_function = vars(model), f"{kind}_step", model.test_function
    before = attributes.get(name)
    attributes[name] = wrap(getattr(model, name))
    if kind == "test":
        model.test_function = None
    try:
        yield
    finally:
        model.test_function = test_function
        if before is None:
            del attributes[name]
        else:
            attributes[name] = before


def _in_turns(timings: Sequence[StepTiming], seconds: float, *, choosing: bool = False) -> None:
    """Time blocks of each in turn, dropping what is far behind."""
    for number in range(MOST):
        going = [t for t in timings if not t.why_not and not _too_slow(t, timings)]
        spent, least = sum(timing.seconds for timing in timings), seconds * len(going)
        enough = number >= FEWEST and spent > least
        slow = all(timing.blocks for timing in going) and spent > AT_MOST * least
        if not going or enough or slow or (choosing and _is_clear(going, timings)):
            break
        for timing in going:
            timing.block()


def _is_clear(going: Sequence[StepTiming], timings: Sequence[StepTiming]) -> bool:
    """Return whether one loop is the fastest by far, of those that are timed further."""
    if len(going) == 1:  # the others failed, or are far behind: its figure is shown all the same
        return len(timings) > 1 and len(going[0].blocks) >= CLEAR_TURNS
    if any(len(timing.blocks) < CLEAR_TURNS for timing in going):
        return False
    best, *others = sorted(going, key=lambda timing: median(timing.blocks))
    return all(
        slow > CLEAR_RATIO * fast
        for other in others
        for slow, fast in zip(other.blocks, best.blocks, strict=False)
    )


def _too_slow(timing: StepTiming, timings: Sequence[StepTiming]) -> bool:
    others = [other for other in timings if not other.why_not]
    if not timing.blocks:
        slow = TOO_SLOW_RATIOS[0] * min(other.cold_step for other in others)
        return timing.cold_call > TOO_SLOW_CALL_SECONDS and timing.cold_step > slow
    best = min(min(other.blocks or [other.cold_step]) for other in others)
    return min(timing.blocks) > TOO_SLOW_RATIOS[len(timing.blocks) > 1] * best


@attrs.define(eq=False)
class StepTiming:
    """One training, and its blocks so far, each as its seconds for a step.

    :param why_not: why it cannot be built or traced; "" if it can.
    :param too_long: whether it is not timed, since a call would take too long.
    :param cold_call: the seconds of its last cold call.
    :param cold_step: the seconds of a step in that call.
    :param set_up_seconds: those of building and tracing it.
    :param seconds: the seconds of all its blocks, and of the calls that determined their length.
    """

    now: Callable[[], int]
    loop: Loop = Loop(1, False)
    why_not: str = ""
    too_long: bool = False
    cold_call: float = 0.0
    cold_step: float = 0.0
    set_up_seconds: float = 0.0
    seconds: float = 0.0
    blocks: list[float] = attrs.field(factory=list)
    built: Any = None
    iterator: Any = None
    _call: Callable[[], int] = lambda: 0
    _grows: ResidentFunction | None = None
    _sync: Callable[[], None] | None = None

    def begin(self, built: Built, before: Sequence[StepTiming]) -> None:
        """Make the function and its cold calls.

        :param before: of these the data are shared where they are the same.
        """
        self.built, self._sync = built, device_sync(built.run.machine)
        distribution = distribution_of(built)
        shared = distribution if isinstance(distribution, Synchronous) else None
        if shared is not None:
            shared.install()  # and not undone, since the model is thrown away
        build_state(built)
        with wrapped_step(built):
            if self.loop.kind == "resident":
                function = made_function(built, self.loop)
                assert isinstance(function, ResidentFunction)
                function.steps, self._grows = 1, function
                self._call = _resident_calls(function)
            else:
                self.iterator = self._iterator_over(built, shared, before)
                self._call = _calls(built, self.loop, shared, self.iterator)
            self.make_cold_calls()

    @staticmethod
    def _iterator_over(
        built: Built, shared: Synchronous | None, before: Sequence[StepTiming]
    ) -> Any:
        stages = built.plans["train"].stages
        for other in before:
            if (
                shared is None
                and other.iterator is not None
                and type(other.built.run.strategy) is type(built.run.strategy)
                and not changes(other.built.plans["train"].stages, stages)
            ):
                return other.iterator
        return _filled(_endless_data(built, shared), built)

    def make_cold_calls(self) -> None:
        """Make the calls that trace. The last of them is a block if it takes long enough."""
        for _ in range(COLD_CALLS):
            self.cold_call, steps = self._timed_call()
            self.cold_step = self.cold_call / steps
        if self.cold_call > LONGEST_BLOCK:
            self.seconds, self.blocks = self.cold_call, [self.cold_step]

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
        self.blocks.append(seconds / steps)

    @property
    def step_seconds(self) -> float:
        """The median seconds of a steady step, those of a cold call where steps are too slow for a
        block; infinity if it is not timed."""
        untimed = self.why_not or self.too_long
        return math.inf if untimed else median(self.blocks or [self.cold_step])

    def let_go(self) -> list[Any]:
        """Return what it reads its data with, and keep none of it."""
        held = [self.iterator, self._call]
        self.iterator, self._call = None, lambda: 0
        return held

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


def _calls(
    built: Built, loop: Loop, shared: Synchronous | None, iterator: Any
) -> Callable[[], int]:
    """Return a function that makes one call of this loop and returns its number of steps."""
    function: Any
    if shared is not None:
        function = shared.endless_function(loop.steps)
    elif loop.kind == "keras" and loop.steps == 1:
        function = keras_function(built, loop.jit_compile)
    else:
        function = made_function(built, loop)

    def call() -> int:
        function(iterator)
        report = getattr(function, "report", None)  # which of a function of known steps is none
        return loop.steps if report is None else int(report.last_call)

    return call


def _resident_calls(function: ResidentFunction) -> Callable[[], int]:
    """Return a function that makes one call over data on the device and returns its steps."""
    # the loop begins an epoch with a new iterator, and takes nothing from it
    unread = Autotune(enabled=False).lower(tf.data.Dataset.range(1))
    epoch = iter(unread)

    def call() -> int:
        nonlocal epoch
        if function.under_way.done >= function.data.batches:  # as `fit`, which knows their number
            epoch = iter(unread)
        function(epoch)
        return function.report.last_call

    return call


def _filled(iterator: Any, built: Built) -> Any:
    """Return an iterator behind its first pass where that fills a cache."""
    end, steps = monotonic() + FILL_SECONDS, built.run.steps_per_epoch
    while built.plans["train"].fills and steps and monotonic() < end:
        next(iterator)
        steps -= 1
    return iterator


def _endless_data(built: Built, shared: Synchronous | None) -> Any:
    """Return an endless iterator over the training data."""
    if shared is not None:
        return iter(shared.data("train", endless=True))
    dataset = built.run.datasets["train"]
    if not isinstance(dataset, tf.data.Dataset):  # a PyDataset, read one batch after another
        dataset = lower_stages(built.plans["train"].stages)
    with built.run.strategy.scope():
        endless = before_copy(dataset, lambda data: data.repeat())
        return iter(built.run.strategy.experimental_distribute_dataset(endless))
