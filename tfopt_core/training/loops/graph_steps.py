"""Trace a model's training step as a graph, and run many steps in one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import attrs


@attrs.define(eq=False)
class TracedSteps:
    """The traced steps of a model, shared by all loops that train it until it is traced anew.

    Keras traces a step once and calls it in each later fit, so a layer that is frozen in between
    trains on until `compile` or `train_function = None` has the step traced anew. A loop that is
    made for another fit therefore calls the steps that an earlier one has traced.
    """

    model: Any
    _steps: dict[tuple[str, bool], Any] = attrs.field(factory=dict)

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
            self._steps[key] = one_step(self.model, jit_compile=jit_compile)
        return self._steps[key]


# The weights that could be trained, by number, when the step of a model was traced by Keras' own
# number of steps a call; none if another loop traced it.
_TRAINABLE: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()


def note_trace(model: Any, *, own_steps: bool) -> None:
    """Note that a fit will trace the model's step.

    :param own_steps: whether it makes as many steps a call as Keras would.
    """
    _TRAINABLE[model] = _trainable(model) if own_steps else frozenset()


def goes_on_as_traced(model: Any) -> bool:
    """Return whether only Keras' own number of steps a call trains on as before: a layer was frozen
    behind the trace, or thawed, which Keras does not notice before the model is compiled again."""
    traced = _TRAINABLE.get(model) if model.train_function is not None else None
    return bool(traced) and traced != _trainable(model)


def _trainable(model: Any) -> frozenset[int]:
    return frozenset(map(id, model.trainable_variables))


def one_step(model: Any, *, jit_compile: bool) -> Any:
    """Return `model.train_step` as a `tf.function` of one batch, called as Keras calls it.

    The attribute is read when the step is traced, so a wrapped step is traced with its wrapper.
    """
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def step(data: Any) -> Any:
        return model.distribute_strategy.run(model.train_step, args=(_without_optionals(data),))

    return tf.function(step, jit_compile=jit_compile, reduce_retracing=True)


def logs_spec(step: Any, batch_spec: Any) -> Any:
    """Return the specification of what a step on such a batch returns, tracing it if needed."""
    return step.get_concrete_function(batch_spec).structured_outputs


def no_logs(spec: Any) -> Any:
    """Return logs of no step: zeros, with length 0 along axes of unknown length."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), spec
    )


def shapes_of_logs(spec: Any) -> Any:
    """Return the shapes that logs keep throughout a loop."""
    import tensorflow as tf

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
    import tensorflow as tf

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
    """Make steps on an iterator's batches. Return how many, and the logs of the last one."""
    import tensorflow as tf

    spec = logs_spec(step, iterator.element_spec)

    def body(made: Any, _: Any, logs: Any) -> Any:
        batch = iterator.get_next_as_optional()
        there = batch.has_value()
        logs = tf.cond(there, lambda: step(batch.get_value()), lambda: logs)
        return made + tf.cast(there, tf.int32), there, logs

    made, _, logs = tf.while_loop(
        lambda made, there, _: there & (made < limit),
        body,
        (tf.constant(0), tf.constant(True), no_logs(spec) if logs is None else logs),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), shapes_of_logs(spec)),
        parallel_iterations=1,
    )
    return made, logs


def _without_optionals(data: Any) -> Any:
    """Return the batch with None for each empty optional, tf.data's form of None."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda part: None if isinstance(part, tf.experimental.Optional) else part, data
    )
