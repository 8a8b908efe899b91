"""Put a clock around the train function of a fit: Keras' own, a loop's, or a distributed one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import attrs

from tfopt_core.data.batching import shapes_in_words
from tfopt_core.data.stages import Autotune
from tfopt_core.errors import PluginRefused
from tfopt_core.training.build import Built, build_state
from tfopt_core.training.clock import StepClock
from tfopt_core.training.distributed.coordinated import Coordinated
from tfopt_core.training.distributed.distribution import Synchronous
from tfopt_core.training.loops.chunked import ChunkedFunction
from tfopt_core.training.loops.graph_steps import FunctionCache, PassEnd, TracedSteps
from tfopt_core.training.loops.report import Loop, continued
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.traces import (
    drawn_so_far,
    forget_trace,
    note_trace,
    step_draws,
    traced_before,
    why_as_traced,
)
from tfopt_core.training.loops.train_functions import (
    TrainFunction,
    loop_function,
    loop_of,
    named_by_loop,
)
from tfopt_core.training.model.layers import runs_eagerly
from tfopt_core.training.runtime import device_sync

OTHER_DRAWS = (
    "the step draws random numbers by TensorFlow, which would begin again: the loop that has drawn "
    "them cannot make this fit; leave the plugin out"
)
DRAWS_IN_TRACES = (
    "the step draws numbers of Python or NumPy while it is traced (so does keras.random without a "
    "seed, in a strategy), and the loop traces it once more than Keras' own; leave the plugin out"
)
OTHER_TRACE = (
    "the script or a callback has set what Keras ignores until the model is compiled again, and "
    "the loop would train {}; compile the model again before fit, or leave the plugin out"
)
OTHER_FUNCTION = (
    "the script has set {} after a fit without compiling the model again: Keras goes on with the "
    "train function that it had; compile the model again, or leave the plugin out"
)
# The methods of a model that are replaced while it trains.
_REPLACED = (
    "fit", "train_step", "test_step", "make_train_function", "_get_metrics_result_or_logs",
)  # fmt: skip


@attrs.define(eq=False)
class TimedFunction:
    """Sets a model's train function for the duration of a fit.

    The clock sits around `model.train_function`, not in a batch callback: a callback that acts
    on batches makes Keras convert the logs of every step.

    :param distribution: trains on several devices or processes.
    :param shared_functions: the train functions of earlier fits of the model; None for a training
        that uses none of them and leaves none.
    :param of_stack: the train function of the stack's loop, None for Keras' own.
    """

    built: Built
    distribution: Synchronous | Coordinated | None = None
    shared_functions: FunctionCache | None = None
    clock: StepClock = attrs.field(init=False)
    of_stack: TrainFunction | None = None
    _functions: FunctionCache = attrs.field(init=False)
    _ends: PassEnd = attrs.field(init=False)
    _own: dict[str, Any] = attrs.field(init=False)
    _own_function: Any = None
    _own_steps: int = 1
    _sets_steps: bool = False
    _own_test_function: Any = None
    _wraps_tests: bool = False

    def __attrs_post_init__(self) -> None:
        self._functions = self.shared_functions or FunctionCache()
        # a script may have set one on the model itself, rather than in a class of its own
        own, loop = vars(self.built.model), loop_of(self.built)
        self._own = {name: own[name] for name in _REPLACED if name in own}
        self.clock = StepClock(
            steps_per_call=loop.steps,
            steps_per_epoch=self.built.run.steps_per_epoch,
            fills_cache=self.built.plans["train"].fills,
            compiles=loop.jit_compile and loop.kind == "keras",
            replicas=self.built.run.replicas,
            own_loop=self.distribution is not None or self.built.training.loop != "keras",
            sync=device_sync(self.built.run.machine),
        )

    def install(self) -> None:
        """Put the clock around the model's train function, and the plugins' step around its own."""
        model, wrap, cache = self.built.model, self.built.training.wrap_train_step, self._functions
        self._own_function, self._own_steps = model.train_function, model.steps_per_execution
        self._ends = PassEnd(
            own_steps=model.steps_per_execution,
            unknown=self.built.batches.get("train") is None,
            steps_given=self.built.steps_given,
            model=model,
        )
        if cache.left is not None and model.train_function is cache.left:
            model.train_function = None
        else:
            cache.forget()
            cache.of_keras = model.train_function is not None
        if self.distribution is not None:
            self.distribution.install()
        step = model.train_step if wrap is None else wrap(model.train_step)
        if not runs_eagerly(model):
            step = self._traced(step)
        model.train_step = step
        self._set_train_function()
        if (wrap := self.built.training.wrap_test_step) is not None:
            # the validations of this fit trace the step that plugins wrap
            self._own_test_function, self._wraps_tests = model.test_function, True
            model.test_step, model.test_function = wrap(model.test_step), None
        vars(model)["make_train_function"] = self._make_train_function
        if self.of_stack is not None and self._ends.unknown:
            # `fit` sees the logs of a call that ends its epoch by an error too
            own, ends = model._get_metrics_result_or_logs, self._ends
            vars(model)["_get_metrics_result_or_logs"] = lambda logs: own(ends.logs_of_epoch(logs))

    def begin_fit(self) -> None:
        """Have `fit`, which is called next, count the steps of a call. Only the training may: the
        evaluations and predictions of the script count their own."""
        vars(self.built.model)["steps_per_execution"] = self.clock.steps_per_call
        self._sets_steps = True

    def _restore_steps(self) -> None:
        """Restore the script's own steps a call, once: a callback may set others after that."""
        if self._sets_steps:
            vars(self.built.model)["steps_per_execution"] = self._own_steps
        self._sets_steps = False

    def uninstall(self) -> None:
        """Restore the model as Keras would leave it."""
        model, cache = self.built.model, self._functions
        was_reset = model.train_function is None  # by a callback
        if self._wraps_tests:
            model.test_function, self._wraps_tests = self._own_test_function, False
        for name in _REPLACED:
            vars(model).pop(name, None)
        vars(model).update(self._own)
        self._restore_steps()
        self.of_stack, model.train_function = None, None if was_reset else self._own_function
        if not was_reset and self.shared_functions is not None:
            model.train_function = cache.left = self._outside_the_loop(1)
        if self.distribution is not None:
            self.distribution.uninstall()

    @property
    def passes(self) -> Any:
        """The data set that `fit` iterates over in the place of the batches; None for these."""
        function = self.of_stack
        if not isinstance(function, ResidentFunction) or not function.reads_order:
            return None
        assert function.data.passes is not None
        # one element a pass: nothing to tune, and the pass' end would wait for the thread that does
        return Autotune(enabled=False).lower(function.data.passes())

    def _fit_within(self, *given: Any, **named: Any) -> Any:
        """Make a fit that a callback of this one asks for, in the script's own steps a call: the
        stack's loop would hide batches from its callbacks, or train on the data that it holds.

        :raises PluginRefused: if the step draws, which goes on in one function only.
        """
        model = self.built.model
        if step_draws(model):
            self._refuse_draws()
        before, single = model.train_function, self._outside_the_loop(model.steps_per_execution)
        model.train_function = single
        try:
            return self._own.get("fit", functools.partial(type(model).fit, model))(*given, **named)
        finally:
            if model.train_function is single:
                model.train_function = before

    def _make_train_function(self, force: bool = False) -> None:
        """Replace Keras' method, which `fit` calls once it has made its iterator, and a callback
        may call to have the step traced anew."""
        model = self.built.model
        self._restore_steps()
        if force or model.train_function is None:
            model.train_function = None
            self._functions.forget()
            self._functions.of_keras = False
            # whether the model has a method of its own decides which loop can train it
            names = ("fit", "make_train_function")
            replaced = {name: vars(model).pop(name) for name in names if name in vars(model)}
            vars(model).update({name: self._own[name] for name in names if name in self._own})
            self._set_train_function()
            vars(model).update(replaced)
        if self.of_stack is not None:  # not before: this training may begin by `model.fit` itself
            vars(model)["fit"] = self._fit_within

    def _set_train_function(self) -> None:
        model = self.built.model
        if self.distribution is not None:
            shared = self.distribution.train_function()
            shared.report = continued(model, shared.report)
            self.clock.steps_per_call = shared.steps
            model.train_function = self.clock.timed(shared, lambda: shared.report.last_call)
            return
        cache = self._functions
        if cache.function is None and cache.traced is None:
            forget_trace(model)
        before, made_before = self.of_stack, attrs.evolve(cache)
        function = self._function_of_stack()
        self._check(function, made_before)
        self.of_stack = function
        if isinstance(function, ResidentFunction) and isinstance(before, ResidentFunction):
            function.under_way = before.under_way
        if function is not None:
            timed = self.clock.timed(function, lambda: function.report.last_call)
        else:
            timed = self.clock.timed(self._function_of_keras())
        model.train_function = self._begun(timed, made_before)

    def _check(self, function: TrainFunction | None, before: FunctionCache) -> None:
        """Check that a fit by this function goes on as in plain Keras.

        :raises PluginRefused: by name, if not.
        """
        model, looped = self.built.model, isinstance(before.function, TrainFunction)
        cache, eagerly = self._functions, bool(model.run_eagerly)
        cache.eagerly = eagerly if cache.eagerly is None else cache.eagerly
        if function is not None and cache.own_steps - {self._own_steps}:
            self._refuse(OTHER_FUNCTION.format("steps_per_execution"), before)
        if eagerly != cache.eagerly and (function is not None or looped):
            self._refuse(OTHER_FUNCTION.format("run_eagerly"), before)
        if looped and type(function) is not type(before.function) and step_draws(model):
            self._refuse(OTHER_DRAWS, before)

    def _refuse(self, why: str, before: FunctionCache) -> NoReturn:
        """Refuse this fit, and leave the functions to the next one as they were."""
        cache, of_loop = self._functions, isinstance(before.function, TrainFunction)
        cache.function, cache.key = before.function, before.key
        cache.own_steps, cache.eagerly = before.own_steps, before.eagerly
        cache.traced = before.traced if of_loop else None  # a loop has made steps of its own
        raise named_by_loop(self.built, PluginRefused(why))

    def _begun(self, function: Callable[[Any], Any], before: FunctionCache) -> Callable[[Any], Any]:
        """Return the train function, which in its first call builds the state where it traces the
        step: Keras builds it there, and a callback that raises before leaves the optimizer without.

        Where it traces a step again that Keras' own has traced, a callback may have set what that
        does not notice."""
        called, first = False, before.function is None and before.traced is None
        again = self.of_stack is not None and not isinstance(before.function, TrainFunction)

        def train_function(iterator: Any) -> Any:
            nonlocal called
            if not called:
                called, steps = True, self.built.model.steps_per_execution
                if self.of_stack is not None and steps != self._own_steps:  # set by a callback
                    self._refuse(OTHER_FUNCTION.format("steps_per_execution"), before)
                if first:
                    build_state(self.built, set(_REPLACED) - self._own.keys())
                elif again and (why := why_as_traced(self.built.model)):
                    self._refuse(OTHER_TRACE.format(why), before)
                self._functions.own_steps |= {steps}
            try:
                return function(iterator)
            except PluginRefused as refusal:
                raise named_by_loop(self.built, refusal) from refusal

        return train_function

    def _function_of_stack(self) -> TrainFunction | None:
        """Return the train function of the stack's loop, None for Keras' own."""
        cache, key = self._functions, self._key()
        if cache.key[-1:] != key[-1:]:
            cache.forget()
        elif cache.key != key:
            cache.function = None
        # a resident one holds the data of its fit
        before = cache.function if isinstance(cache.function, ChunkedFunction) else None
        cache.traced = cache.traced or TracedSteps(self.built.model)
        function = loop_function(self.built, cache.traced, self._ends, before)
        if function is not None:
            cache.function, cache.key = function, key
        return function

    def _function_of_keras(self) -> Callable[[Any], Any]:
        """Return Keras' own train function."""
        model, cache, key = self.built.model, self._functions, self._key()
        if cache.function is None or cache.key != key:
            if self.built.training.wrap_train_step is not None:
                model.train_function = None  # it would go on with the step that it was made of
            make = self._own.get("make_train_function")
            make() if make else type(model).make_train_function(model)
            cache.function, cache.key = model.train_function, key
        function: Callable[[Any], Any] = cache.function
        return function

    def _outside_the_loop(self, steps: int) -> Any:
        """Return a train function of so many steps a call, which shares the traced step with the
        stack's loop: for `train_on_batch` after the fit, and for a fit in a callback."""
        cache, made = self._functions, self._functions.function
        if isinstance(made, TrainFunction) and cache.of_keras and step_draws(self.built.model):
            return self._refuse_draws
        if isinstance(made, TrainFunction):
            ends = PassEnd(own_steps=steps, model=self.built.model)
            single = Loop(steps, jit_compile=made.loop.jit_compile)
            return ChunkedFunction(made.traced, single, ends=ends)
        return cache.function

    def _refuse_draws(self, iterator: Any = None) -> NoReturn:
        """Refuse to make steps, as a train function too."""
        raise named_by_loop(self.built, PluginRefused(OTHER_DRAWS))

    def _key(self) -> tuple[Any, ...]:
        loop = loop_of(self.built)
        # XLA compiles for one size of a batch
        size = self.built.plans["train"].batch_size if loop.compiles_whole else None
        if loop.kind == "keras" and loop.steps == self._own_steps:
            # set without `compile`, Keras reads it anew, and traces nothing
            loop = attrs.evolve(loop, steps=0)
        return (loop, size, self.built.training.wrap_train_step is None)

    def _traced(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def train_step(data: Any, *args: Any, **kwargs: Any) -> Any:
            # this runs while the step is traced, only then
            self.clock.count_trace(shapes_in_words(data))
            model, of_keras = self.built.model, self.of_stack is None and self.distribution is None
            if not of_keras and (why := why_as_traced(model, data)):
                raise PluginRefused(OTHER_TRACE.format(why))
            again, drawn = traced_before(model, data), drawn_so_far()
            result = step(data, *args, **kwargs)
            if again and self.of_stack is not None and drawn != drawn_so_far():
                raise PluginRefused(DRAWS_IN_TRACES)
            note_trace(model, data, of_keras=of_keras)
            return result

        return train_step
