"""Switch between several exact train functions in one training.

Keras' own `fit` runs unchanged. It reads `model.train_function` at each call and counts a fixed
number of steps for it. A loop that makes more steps a call makes them all in one call, and the
next calls of `fit` return the same logs without a step.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from tfopt_core.errors import describe
from tfopt_core.records.messages import Tell
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import TEST_METHODS, batch_callbacks
from tfopt_core.training.loops.exact_loops import Adapt, Decider, Loop
from tfopt_core.training.loops.held_batches import HeldBatches
from tfopt_core.training.loops.offers import offer_loops
from tfopt_core.training.loops.report import continued
from tfopt_core.training.loops.train_functions import (
    keras_function,
    made_function,
    reads_before_fit,
)
from tfopt_core.training.timing.clock import StepClock


@attrs.define(eq=False)
class SwitchingLoop:
    """The `model.train_function` while loops are compared, and afterwards.

    :param decider: chooses a loop for each call, until it keeps one.
    :param tell: called once with what was compared and is kept.
    :param steps_made: steps that the last call made; 0 for a call whose steps were made before.
    """

    built: Built
    clock: StepClock
    decider: Decider
    reference: Loop
    tell: Tell
    steps_per_epoch: int | None
    kept: Loop | None = None
    steps_made: int = 0
    _steps_counted: int = 0
    _functions: dict[Loop, Any] = attrs.field(factory=dict)
    _compiled_tails: set[Loop] = attrs.field(factory=set)
    _answered: int = 0
    _done: int = 0
    _logs: Any = None

    def __attrs_post_init__(self) -> None:
        self._steps_counted = self.reference.steps

    def __call__(self, iterator: Any) -> Any:
        """Answer one call of `fit`. Exceptions of the reference loop pass through."""
        if self._answered:
            self._answered -= 1
            self.steps_made = 0
            return self._logs
        loop = self._fitting(self.kept or self._chosen())
        traces = self.clock.traces
        is_made = loop in self._functions and not self._may_compile(loop)
        if is_made or loop == self.reference:
            self._make_steps(loop, iterator)
        else:
            loop = self._try(loop, iterator)
        self._done += self.steps_made
        self._answered = max(0, self.steps_made // self._steps_counted - 1)
        self._note_compiled_tail(loop)
        if self.kept is None:
            self.decider.called(loop, self.steps_made, traced=self.clock.traces != traces)
        return self._logs

    @property
    def steps_counted(self) -> int:
        """The steps that `fit` and `evaluate` count for each call."""
        return self._steps_counted

    def begin_epoch(self) -> None:
        """Note that an epoch's first step is about to fetch its input."""
        self._done = self._answered = 0
        if self.kept is None:
            self.decider.cut()

    @property
    def last(self) -> Loop:
        """The loop that trains once nothing is compared any more."""
        return self.kept or self.reference

    @property
    def wants_restart(self) -> bool:
        """Whether a new call of `fit` would count by the steps of the loop that is kept."""
        return self.last.steps != self._steps_counted and restarting_changes_nothing(self.built)

    def before_restart(self) -> None:
        """Have the next call of `fit` count by the steps of the loop that is kept."""
        self._steps_counted = self.last.steps

    def finish(self) -> None:
        """Leave the model as it was: the training is over."""
        if self.kept is None:
            self.tell(self.decider.adapted())
        self._steps_counted = self.reference.steps

    def _chosen(self) -> Loop:
        loop = self.decider.choose()
        self.kept = self.decider.kept
        if self.kept is not None:
            self.tell(self.decider.adapted())
        return loop

    def _fitting(self, loop: Loop) -> Loop:
        """Return the loop, or the reference if the loop makes more steps than are left in the
        epoch. A call must not reach past the epoch that `fit` counts."""
        if loop.steps == self._steps_counted:
            return loop
        left = self._left()
        return loop if left is not None and loop.steps <= left else self.reference

    def _left(self) -> int | None:
        return None if self.steps_per_epoch is None else self.steps_per_epoch - self._done

    def _steps_of(self, loop: Loop) -> int:
        """Return the steps of a call: the larger of `fit`'s and the loop's, within the epoch."""
        left, steps = self._left(), max(loop.steps, self._steps_counted)
        return steps if left is None else min(steps, max(0, left))

    def _make_steps(self, loop: Loop, iterator: Any) -> None:
        self.steps_made = self._steps_of(loop)
        for _ in range(0, max(1, self.steps_made), loop.steps):
            self._logs = self._run(loop, iterator)
        if self._left() is None and loop.kind != "keras":
            self.steps_made = self._functions[loop].report.last_call

    def _may_compile(self, loop: Loop) -> bool:
        """Return whether the next call may compile, and so may fail before it has trained."""
        if loop.kind == "chunked" and loop.jit_compile:
            # where sizes vary, the first call only learns them, and a later one compiles
            made = self._functions[loop].report
            return not (made.compiled_steps or made.why_not_whole)
        return self._compiles_anew(loop)

    def _compiles_anew(self, loop: Loop) -> bool:
        """Return whether XLA will compile in this call, for the epoch's smaller last batch."""
        is_last = self._left() is not None and self._steps_of(loop) == self._left()
        return loop.compiles_tail and is_last and loop not in self._compiled_tails

    def _try(self, loop: Loop, iterator: Any) -> Loop:
        """Make a call that traces or compiles; if it fails, the reference trains on its batches.

        :returns: the loop that made the steps.
        """
        held = HeldBatches(iterator, self.built.run.strategy)
        iterations = self._iterations()
        try:
            replay = held.again()
            self.steps_made = held.fetch(self._steps_of(loop))
            self._logs = self._run(loop, replay)
        except StopIteration:
            raise
        except Exception as error:
            if self._iterations() != iterations:
                raise  # it trained: the failure is the training's own
            self._functions.pop(loop, None)
            self._give_up(loop, describe(error))
        else:
            return loop
        if not held.batches:
            self._make_steps(self.reference, iterator)
            return self.reference
        replay = held.again()
        for _ in range(0, self.steps_made, self.reference.steps):
            self._logs = self._run(self.reference, replay)
        return self.reference

    def _give_up(self, loop: Loop, why: str) -> None:
        """Stop using a loop that cannot be traced or compiled."""
        if self.kept is None:
            self.decider.failed(loop, why)
            return
        warnings.warn(
            f"tfopt: the loop that was kept ({loop.name}) failed, and the training goes on with "
            f"{self.reference.name}: {why}",
            stacklevel=2,
        )
        self.kept = self.reference

    def _run(self, loop: Loop, iterator: Any) -> Any:
        if loop not in self._functions:
            self._functions[loop] = self._made(loop)
        with self._steps_per_execution(loop.steps):
            return self._functions[loop](iterator)

    def _made(self, loop: Loop) -> Any:
        if loop.kind == "keras":
            return keras_function(self.built, loop.jit_compile)
        function = made_function(self.built, loop)
        if loop == self.reference:  # the plugin that set it reads the report
            function.report = continued(self.built.model, function.report)
        return function

    @contextmanager
    def _steps_per_execution(self, steps: int) -> Iterator[None]:
        """Set the model's steps a call during a call: Keras reads them while it traces.

        It bypasses the attribute tracking of Keras layers, which costs microseconds in each call.
        """
        attributes = vars(self.built.model)
        before = attributes["steps_per_execution"]
        attributes["steps_per_execution"] = steps
        try:
            yield
        finally:
            attributes["steps_per_execution"] = before

    def _note_compiled_tail(self, loop: Loop) -> None:
        """Count the compilation of the epoch's smaller last batch, which needs no trace."""
        if loop.compiles_tail and self._left() == 0 and loop not in self._compiled_tails:
            self._compiled_tails.add(loop)
            self.clock.count_compilation()

    def _iterations(self) -> int:
        iterations = getattr(self.built.model.optimizer, "iterations", None)
        return 0 if iterations is None else int(iterations)


def switching_loop(
    built: Built, clock: StepClock, adapt: Adapt, tell: Tell
) -> SwitchingLoop | None:
    """Return the loop that compares the offered loops; None if none is offered."""
    offer = offer_loops(built)
    decider = adapt(offer, clock.sync)
    if offer.empty:
        tell(decider.adapted())
        return None
    return SwitchingLoop(
        built, clock, decider, offer.reference, tell, steps_per_epoch=built.run.steps_per_epoch
    )


def restarting_changes_nothing(built: Built) -> bool:
    """Return whether a new call of `fit` between two epochs trains exactly as one call would."""
    import tensorflow as tf

    optimizer = getattr(built.model.optimizer, "inner_optimizer", built.model.optimizer)
    if getattr(optimizer, "use_ema", False):
        return False  # `fit` ends by writing the moving averages into the weights
    if batch_callbacks(built.training.callbacks, TEST_METHODS):
        return False  # validation would make more steps a call too
    if not isinstance(built.run.datasets["train"], tf.data.Dataset):
        return False  # a PyDataset hears of another end of an epoch, and may shuffle
    return not reads_before_fit(built.model)  # which draws from a shuffle's seeds
