"""Trace a model's training step as a graph, make many steps in one loop, and end a pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.data.functions import drawing_ops
from tfopt_core.errors import PluginRefused
from tfopt_core.lazy import tf
from tfopt_core.training.loops.traces import as_called, specs_of_keras, step_draws
from tfopt_core.training.model.layers import output_losses_weighed

GOES_ON = (
    "a callback stops an epoch before its first step and goes on behind it, and Keras reads on "
    "where that epoch would have ended; leave the plugin out"
)
DRAWS_AT_THE_END = (
    "the step draws random numbers by TensorFlow, and Keras' own loop draws once more at the end "
    "of data of an unknown number of batches; leave the plugin out, or tell it the number "
    "(tf.data.experimental.assert_cardinality)"
)


@attrs.define(eq=False)
class TracedSteps:
    """The traced steps of a model, shared by all loops that train it until it is traced anew.

    Keras traces a step once and calls it in each later fit, so a layer that is frozen in between
    trains on until `compile` or `train_function = None` has the step traced anew. A loop that is
    made for another fit therefore calls the steps that an earlier one has traced. It calls them in
    the same functions too: what a step draws by TensorFlow goes on within one function only.

    :param loops: the loops over resident data, by the ids of their maps and what else they were
        traced for, and then by the size of a batch, None for any.
    :param specs: of the batches that these, and those that went, were traced for.
    """

    model: Any
    loops: dict[tuple[tuple[int, ...], str], dict[int | None, Any]] = attrs.field(factory=dict)
    specs: list[Any] = attrs.field(factory=list)
    _steps: dict[tuple[str, bool], Any] = attrs.field(factory=dict)
    _functions: dict[tuple[str, bool, str], Any] = attrs.field(factory=dict)
    _last: dict[tuple[str, bool], tuple[Any, Any]] = attrs.field(factory=dict)

    @property
    def used(self) -> bool:
        """Whether a loop calls these steps."""
        return bool(self._steps)

    def step(self, purpose: str, *, jit_compile: bool = False) -> Any:
        """Return the step for this purpose. Steps that are traced for other shapes are kept
        apart: `tf.function` would call one that was traced for any size, and XLA cannot compile
        every operation of it."""
        key = purpose, jit_compile
        if key not in self._steps:
            sized_here = purpose != "step" or jit_compile
            self._steps[key] = one_step(self.model, jit_compile=jit_compile, sized_here=sized_here)
        return self._steps[key]

    def single(self, iterator: Any, *, jit_compile: bool = False) -> Any:
        """Make a step on an iterator's next batch, and return its logs."""
        step = self.step("step", jit_compile=jit_compile)
        return self._function(
            "single", lambda iterator: step(iterator.get_next()), iterator, jit_compile=jit_compile
        )(iterator)

    def one_by_one(self, iterator: Any, limit: int, *, jit_compile: bool) -> Any:
        """Make steps on an iterator's batches, as the function `one_by_one`."""
        step, number = self.step("step", jit_compile=jit_compile), tf.TensorSpec([], tf.int32)
        return self._function(
            "one by one", lambda iterator, limit: one_by_one(iterator, step, limit), iterator,
            number, jit_compile=jit_compile,
        )(iterator, tf.constant(limit))  # fmt: skip

    def draws(self, batch_spec: Any) -> bool:
        """Return whether a step on such a batch draws random numbers by TensorFlow."""
        traced = self.step("step").get_concrete_function(self.called(batch_spec))
        return bool(drawing_ops(traced.graph))

    def called(self, batch_spec: Any) -> Any:
        """Return the specification for which Keras makes a step on such a batch. The step is traced
        for all that Keras has traced, to be called as Keras' own would be."""
        for traced in specs_of_keras(self.model, batch_spec):
            self.step("step").get_concrete_function(traced)
        return as_called(self.model, batch_spec)

    def _function(
        self, name: str, body: Callable[..., Any], iterator: Any, *others: Any, jit_compile: bool
    ) -> Any:
        """Return a function of iterators like this one, as it is traced where Keras' own is.

        :param others: the specifications of its other arguments.
        """
        spec, called = iterator.element_spec, None
        last, function = self._last.get((name, jit_compile), (None, None))
        if last is spec:  # each step asks for it
            return function
        if not jit_compile and isinstance(iterator, tf.data.Iterator):
            called = self.called(spec)
        key = name, jit_compile, repr(called)
        if key not in self._functions:
            function = tf.function(body, autograph=False, reduce_retracing=True)
            self._functions[key] = function
            if called not in (None, spec):
                function.get_concrete_function(tf.data.IteratorSpec(called), *others)
        self._last[name, jit_compile] = spec, self._functions[key]
        return self._functions[key]


def one_step(model: Any, *, jit_compile: bool, sized_here: bool = False) -> Any:
    """Return `model.train_step` as a `tf.function` of one batch, called as Keras calls it.

    The attribute is read when the step is traced, so a wrapped step is traced with its wrapper.

    :param sized_here: whether it is traced for a size of batches that Keras' own may not know.
    """

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def step(data: Any) -> Any:
        with output_losses_weighed(model) if sized_here else contextlib.nullcontext():
            return model.distribute_strategy.run(model.train_step, args=(without_optionals(data),))

    return tf.function(step, jit_compile=jit_compile, reduce_retracing=True)


def logs_spec(step: Any, batch_spec: Any) -> Any:
    """Return the specification of what a step on such a batch returns, tracing it if needed."""
    return step.get_concrete_function(batch_spec).structured_outputs


def no_logs(spec: Any) -> Any:
    """Return logs of no step: zeros, with length 0 along axes of unknown length."""
    return tf.nest.map_structure(
        lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), spec
    )


def shapes_of_logs(spec: Any) -> Any:
    """Return the shapes that logs keep throughout a loop."""
    return tf.nest.map_structure(lambda log: log.shape, spec)


def repeated(
    step: Any, batch_at: Callable[[Any], Any], batch_spec: Any, count: Any, *, compiled: bool
) -> Any:
    """Make `count` steps on `batch_at(0)`, `batch_at(1)`, ... and return the logs of the last one.

    Logs are carried out of the loop, since those of a custom step need not be metrics.

    :param count: a scalar, at least 1 where the shapes of the logs are not known.
    :param compiled: whether XLA compiles the loop. Its logs must then keep their shape, so where
        that is not known the first step is made before the loop.
    """
    spec = logs_spec(step, batch_spec)
    known = all(log.shape.is_fully_defined() for log in tf.nest.flatten(spec))
    if compiled and not known:
        first, logs = 1, step(batch_at(tf.constant(0)))
    else:
        first, logs = 0, no_logs(spec)
    _, logs = tf.while_loop(
        lambda done, _: done < count,
        lambda done, _: (done + 1, step(batch_at(done))),
        (tf.constant(first), logs),
        shape_invariants=(tf.TensorShape([]), shapes_of_logs(spec)),
        parallel_iterations=1,
    )
    return logs


def one_by_one(iterator: Any, step: Any, limit: Any, logs: Any = None) -> Any:
    """Make steps on an iterator's batches, until they end.

    :param limit: the most steps.
    :returns: how many steps, and the logs of the last one.
    """
    spec, scalar = logs_spec(step, iterator.element_spec), tf.TensorShape([])

    def body(made: Any, _: Any, logs: Any) -> Any:
        batch = iterator.get_next_as_optional()
        there = batch.has_value()
        logs = tf.cond(there, lambda: step(batch.get_value()), lambda: logs)
        return made + tf.cast(there, tf.int32), there, logs

    made, _, logs = tf.while_loop(
        lambda made, there, *_: there & (made < limit),
        body,
        (tf.constant(0), tf.constant(True), no_logs(spec) if logs is None else logs),
        shape_invariants=(scalar, scalar, shapes_of_logs(spec)),
        parallel_iterations=1,
    )
    return made, logs


def without_optionals(data: Any) -> Any:
    """Return the batch with None for each empty optional, tf.data's form of None."""
    return tf.nest.map_structure(
        lambda part: None if isinstance(part, tf.experimental.Optional) else part, data
    )


@attrs.define(eq=False)
class FunctionCache:
    """The train function that a model's fits share until the model is compiled or traced anew.

    Without it a script that calls `fit` repeatedly would trace each time.

    :param function: the train function.
    :param key: the settings that it was made for.
    :param traced: the steps that loops other than Keras' own call.
    :param own_steps: the steps a call of the fits that have called these; Keras traces by them.
    :param eagerly: whether Keras' own loop ran eagerly when these were made.
    :param left: what the last fit left as `model.train_function`; None before the first one. If
        the model has another one, the script has reset it, to have its step traced anew.
    :param of_keras: whether Keras' own loop had made steps before the first fit, by
        `train_on_batch`.
    """

    function: Any = None
    key: tuple[Any, ...] = ()
    traced: TracedSteps | None = None
    own_steps: frozenset[int] = frozenset()
    eagerly: bool | None = None
    left: Any = None
    of_keras: bool = False

    def forget(self) -> None:
        """Have the next fit make its own."""
        self.function, self.key, self.traced, self.left = None, (), None, None
        self.own_steps, self.eagerly = frozenset(), None


@attrs.define(eq=False)
class PassEnd:
    """What the calls of a train function do at the end of the data, in one fit.

    Keras makes no call past the end where it knows the number of batches. Where it does not, its
    loop of one step a call makes a step on a batch that is not there: TensorFlow fails once it
    takes the batch, but has done by then what does not depend on it. The optimizer counts a step
    more, and metrics count the examples of a batch whose size is known. Keras counts that step as a
    batch of the data, and makes no more steps than that in the passes that follow.

    :param own_steps: the steps of a call of Keras' own loop, which makes that step where it is 1.
    :param unknown: whether Keras does not know the number of batches.
    :param steps_given: whether `fit` is told how many steps an epoch has: it may then end before a
        call that finds no batch.
    :param model: None outside of a fit, where steps are timed.
    """

    own_steps: int = 1
    unknown: bool = False
    steps_given: bool = False
    model: Any = None
    _shortened: bool = False
    _most: int | None = None
    _iterator: Any = None
    _made: int = 0
    _kept_logs: Any = None

    def steps_of_call(self, steps: int) -> int:
        """Return how many of the `steps` of a call may be made: as many as in Keras' own where the
        training was told to stop before it, since `fit` ends the epoch behind the call.

        :raises PluginRefused: where the epoch after that goes on with the same iterator: Keras
            counts on it the steps of a whole call.
        """
        if self._shortened and self.steps_given:
            raise PluginRefused(GOES_ON)
        if self.model is None or not self.model.stop_training:
            return steps
        self._shortened = steps > self.own_steps
        return min(steps, self.own_steps)

    def most_steps(self, iterator: Any, steps: int) -> int:
        """Return how many of the `steps` of a call Keras' own loop would make if it has data."""
        if iterator is not self._iterator:
            self._iterator, self._made = iterator, 0
        return steps if self._most is None else min(steps, self._most - self._made)

    def check(self, made: int, most: int, logs: Any, single: Any, ended: Callable[[], Any]) -> None:
        """End the epoch if the pass has ended.

        :param made: how many of the `most` steps of a call were made.
        :param logs: those of the last one.
        :param single: makes one step on an iterator's next batch.
        :param ended: returns an iterator that has no batch left.
        :raises StopIteration: if it has.
        """
        self._made += made
        if made == most or (made and not self.unknown):
            return
        if made and self.steps_given and self.own_steps > 1:
            return  # as Keras' own call of so many steps; the next one ends the pass, if it is made
        if self.own_steps == 1:
            self._make_step(single, ended())
        own_calls = -(-self._made // self.own_steps)
        if self.unknown and self._most is None:
            self._most = (own_calls + 1) * self.own_steps
        if own_calls * self.own_steps == self._most:
            self._made = self._most  # Keras makes no call that would find the end
            return
        if made:
            self._kept_logs = logs
        raise StopIteration

    def note_failure(self, error: Any, single: Any, spec: Any) -> None:
        """Make the step that Keras' own loop makes on a batch that could not be read.

        :param error: what a call has raised: by reading a batch, or by a step.
        :param spec: the specification of a batch.
        """
        if self.own_steps == 1 and "IteratorGetNext" in error.message:
            self._make_step(single, without_batches(spec))

    def logs_of_epoch(self, logs: Any) -> Any:
        """Return the logs of an epoch's last call, which `fit` has not seen if it raised."""
        kept, self._kept_logs = self._kept_logs, None
        return logs if kept is None else kept

    def _make_step(self, single: Any, iterator: Any) -> None:
        """Make a step on a batch that is not there.

        :raises PluginRefused: if the step draws by TensorFlow, which goes on in one function only.
        """
        if self.model is not None and step_draws(self.model):
            raise PluginRefused(DRAWS_AT_THE_END)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            single(iterator)


def without_batches(spec: Any) -> Any:
    """Return an iterator over batches of this specification that has ended."""
    return iter(tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec))
