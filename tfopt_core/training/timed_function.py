"""Put a clock around the train function of a fit: Keras' own, a loop's, or a distributed one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.records.messages import Tell
from tfopt_core.training.batch_shapes import shapes_in_words
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import Distribution, SharedFunction
from tfopt_core.training.distributed.models import build_before_fit
from tfopt_core.training.loops.chunked import ChunkedFunction
from tfopt_core.training.loops.exact_loops import Adapt
from tfopt_core.training.loops.function_cache import FunctionCache
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.switching import SwitchingLoop, switching_loop
from tfopt_core.training.loops.train_functions import (
    TrainFunction,
    count_by,
    loop_function,
    loop_of,
)
from tfopt_core.training.timing.clock import StepClock
from tfopt_core.training.timing.devices import device_sync


@attrs.define(eq=False)
class TimedFunction:
    """Sets a model's train function for the duration of a fit.

    The clock sits around `model.train_function`, not in a batch callback: a callback that acts
    on batches makes Keras convert the logs of every step.

    :param distribution: trains on several devices or processes.
    :param function_cache: the train functions of earlier fits of the model.
    :param on_traced: called after the step was traced.
    :param loop: changes between exact loops, in place of the stack's loop.
    :param of_stack: the train function of the stack's loop, None for Keras' own.
    :param shared: the train function of the distribution.
    """

    built: Built
    distribution: Distribution | None = None
    function_cache: FunctionCache = attrs.field(factory=FunctionCache)
    clock: StepClock = attrs.field(init=False)
    on_traced: Callable[[], None] = lambda: None
    loop: SwitchingLoop | None = None
    of_stack: TrainFunction | None = None
    shared: SharedFunction | None = None
    _own: dict[str, Any] = attrs.field(init=False)
    _own_test_function: Any = None
    _wraps_tests: bool = False

    @_own.default
    def _own_step(self) -> dict[str, Any]:
        # a script may have set a step on the model itself, rather than in a class of its own
        steps = ("train_step", "test_step")
        return {key: value for key, value in vars(self.built.model).items() if key in steps}

    @clock.default
    def _make_clock(self) -> StepClock:
        return StepClock(
            steps_per_call=loop_of(self.built).steps,
            steps_per_epoch=self.built.run.steps_per_epoch,
            fills_cache=self.built.fills_cache,
            compiles=loop_of(self.built).compiles_tail,
            replicas=self.built.run.replicas,
            own_loop=self.distribution is not None or self.built.training.loop != "keras",
            sync=device_sync(self.built.run.machine),
        )

    def install(self, adapt: Adapt | None = None, tell: Tell = lambda message: None) -> None:
        """Put the clock around the model's train function, and the plugins' step around its own.

        :param adapt: compares exact loops during the training, and keeps one of them.
        :param tell: called with the result.
        """
        model, wrap, cache = (
            self.built.model,
            self.built.training.wrap_train_step,
            self.function_cache,
        )
        if self.distribution is not None:
            self.distribution.install()
        else:
            build_before_fit(self.built)
        if adapt is not None:
            self.loop = switching_loop(self.built, self.clock, adapt, tell)
            self.clock.own_loop = True
        cache.on_trace, cache.on_traced = self.clock.count_trace, lambda: self.on_traced()
        step = model.train_step if wrap is None else wrap(model.train_step)
        if not model.run_eagerly:
            step = self._traced(step)
        model.train_step = step
        self._set_train_function()
        self._set_test_step()

    def uninstall(self) -> None:
        """Restore the model as Keras made it."""
        model, options = self.built.model, self.built.training
        if self.loop is not None:
            self.loop.finish()
        if self._wraps_tests:
            model.test_function, self._wraps_tests = self._own_test_function, False
        for name in ("train_step", "test_step", "_maybe_symbolic_build"):
            vars(model).pop(name, None)
        vars(model).update(self._own)
        model.train_function = self.of_stack = None
        self.function_cache.fit_is_over()
        if self.distribution is not None or options.loop != "keras":
            count_by(model, options.steps_per_execution if options.loop == "keras" else 1)
        if self.distribution is not None:
            self.distribution.uninstall()

    @property
    def jit_compile(self) -> bool:
        """Whether XLA compiles the steps; those of the last loop, if loops change."""
        loop = self.loop
        return bool(self.built.model.jit_compile) if loop is None else loop.last.jit_compile

    def _set_train_function(self) -> None:
        model, loop, cache = self.built.model, self.loop, self.function_cache
        if loop is not None:
            count_by(model, loop.steps_counted)
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
        function = self.of_stack = loop_function(self.built, self._cached_chunks())
        if function is not None:
            if isinstance(function, ResidentFunction):
                function.begin_fit()
            cache.function, cache.key = function, self._key()
            model.train_function = self.clock.timed(function, lambda: function.report.last_call)
            return
        if cache.key == self._key():
            model.train_function = cache.function  # None, or traced by an earlier fit
        model.make_train_function()
        cache.function, cache.key = model.train_function, self._key()
        model.train_function = self.clock.timed(model.train_function)

    def _set_test_step(self) -> None:
        """Have the validations of this fit trace the step that plugins wrap."""
        model, wrap = self.built.model, self.built.training.wrap_test_step
        if wrap is not None:
            self._own_test_function, self._wraps_tests = model.test_function, True
            model.test_step, model.test_function = wrap(model.test_step), None

    def _key(self) -> tuple[Any, ...]:
        training = self.built.training
        size = self.built.plans["train"].batch_size if training.loop != "keras" else None
        return (loop_of(self.built), size, training.wrap_train_step is None)

    def _cached_chunks(self) -> ChunkedFunction | None:
        """Return the chunked loop of an earlier fit, if it fits; a resident one has other data."""
        function, key = self.function_cache.function, self.function_cache.key
        return function if isinstance(function, ChunkedFunction) and key == self._key() else None

    def _traced(self, step: Callable[..., Any]) -> Callable[..., Any]:
        cache = self.function_cache

        @functools.wraps(step)
        def train_step(data: Any, *args: Any, **kwargs: Any) -> Any:
            cache.on_trace(shapes_in_words(data))  # this runs while the step is traced, only then
            result = step(data, *args, **kwargs)
            cache.on_traced()
            return result

        return train_step
