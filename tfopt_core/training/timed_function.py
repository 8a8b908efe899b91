"""What trains a model during a fit, with the clock around it: Keras' own train function, one of a
loop of the stack, or one that is shared by several devices or processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import Distribution, SharedFunction
from tfopt_core.training.loops.chunked import ChunkedFunction
from tfopt_core.training.loops.function_cache import FunctionCache
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.switching import SwitchingLoop
from tfopt_core.training.loops.train_functions import (
    TrainFunction,
    count_by,
    loop_function,
    loop_of,
)
from tfopt_core.training.timing.clock import StepClock


@attrs.define(eq=False)
class TimedFunction:
    """Sets a model's train function for as long as a fit lasts.

    The clock sits around `model.train_function`, not in a batch callback: a callback that acts
    on batches makes Keras convert the logs of every step.

    :param kept: what earlier fits of the model have left, and later ones will find.
    :param on_traced: called after the step was traced.
    :param loop: trains by changing loops, in place of the stack's one.
    :param distribution: trains on several devices or processes.
    :param of_stack: the train function of the stack's loop, None for Keras' own.
    :param shared: that of the distribution.
    """

    built: Built
    clock: StepClock
    kept: FunctionCache
    on_traced: Callable[[], None]
    loop: SwitchingLoop | None = None
    distribution: Distribution | None = None
    of_stack: TrainFunction | None = None
    shared: SharedFunction | None = None

    def install(self) -> None:
        """Put the clock around the model's train function, and the plugins' step around its own."""
        model, wrap = self.built.model, self.built.training.wrap_train_step
        self.kept.on_trace, self.kept.on_traced = self.clock.count_trace, self.on_traced
        step = model.train_step if wrap is None else wrap(model.train_step)
        if not model.run_eagerly:
            step = self._traced(step)
        model.train_step = step
        self._set()

    def uninstall(self) -> None:
        """Leave the model as Keras made it."""
        model, options = self.built.model, self.built.training
        if "train_step" in vars(model):
            del model.train_step
        model.train_function = self.of_stack = None
        self.kept.fit_is_over()
        if self.distribution is not None or options.loop != "keras":
            count_by(model, options.steps_per_execution if options.loop == "keras" else 1)

    def trace_anew(self) -> None:
        """What was read when the step was traced has changed: what is trainable, say."""
        self.built.model.train_function = None
        self.kept.forget()
        self._set()

    def take_new_data(self) -> None:
        """A call of `fit` follows over other data."""
        of_keras = self.built.training.loop == "keras" and self.loop is None
        if of_keras and self.distribution is None:
            return
        # these know the shapes of the old data, and the resident one the data themselves
        self.of_stack = None
        self.kept.forget()
        self._set()

    def _set(self) -> None:
        model, loop = self.built.model, self.loop
        if loop is not None:
            count_by(model, loop.steps_counted)
            loop.forget_functions()
            model.train_function = self.clock.timed(loop, lambda: loop.steps_made)
            return
        if self.distribution is not None:
            shared = self.shared = self.distribution.train_function()
            self.clock.steps_per_call = shared.steps
            count_by(model, shared.steps)
            model.train_function = self.clock.timed(shared, lambda: shared.report.last_call)
            return
        if self.built.training.loop != "keras":
            self.clock.steps_per_call = steps = loop_of(self.built).steps
            count_by(model, steps)
        before = self.of_stack if isinstance(self.of_stack, ResidentFunction) else None
        function = self.of_stack = loop_function(self.built, before or self._kept_chunks())
        if function is not None:
            self.kept.function, self.kept.key = function, self._key()
            model.train_function = self.clock.timed(function, lambda: function.report.last_call)
            return
        if self.kept.key == self._key():
            model.train_function = self.kept.function  # None, or what an earlier fit has traced
        model.make_train_function()
        self.kept.function, self.kept.key = model.train_function, self._key()
        model.train_function = self.clock.timed(model.train_function)

    def _key(self) -> tuple[Any, ...]:
        training = self.built.training
        size = self.built.plans["train"].batch_size if training.loop != "keras" else None
        return (loop_of(self.built), size, training.wrap_train_step is None)

    def _kept_chunks(self) -> TrainFunction | None:
        """A chunked loop that an earlier fit has traced; one over resident data has other data."""
        kept = self.kept.function
        return kept if isinstance(kept, ChunkedFunction) and self.kept.key == self._key() else None

    def _traced(self, step: Callable[..., Any]) -> Callable[..., Any]:
        kept = self.kept

        @functools.wraps(step)
        def train_step(*args: Any, **kwargs: Any) -> Any:
            kept.on_trace()  # this line runs while the step is traced, and only then
            result = step(*args, **kwargs)
            kept.on_traced()
            return result

        return train_step
