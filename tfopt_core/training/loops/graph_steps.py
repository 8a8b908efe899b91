"""A model's training step as a graph, and many of them in one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def one_step(model: Any, *, jit_compile: bool) -> Any:
    """`model.train_step` on one batch, as a `tf.function`: called as Keras itself calls it.

    The attribute is read when the step is traced, so a step that was wrapped is the one traced.
    """
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def step(data: Any) -> Any:
        return model.distribute_strategy.run(model.train_step, args=(_without_optionals(data),))

    return tf.function(step, jit_compile=jit_compile, reduce_retracing=True)


def logs_spec(step: Any, batch_spec: Any) -> Any:
    """What a step on such a batch returns, as specifications; traces it if it was not yet."""
    return step.get_concrete_function(batch_spec).structured_outputs


def no_logs(spec: Any) -> Any:
    """Logs of no step: zeros, and nothing along the axes whose length is unknown."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda log: tf.zeros([size or 0 for size in log.shape], log.dtype), spec
    )


def shapes_of_logs(spec: Any) -> Any:
    """The shapes that logs keep throughout a loop."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda log: log.shape, spec)


def repeated(
    step: Any, batch_at: Callable[[Any], Any], batch_spec: Any, count: Any, *, compiled: bool
) -> Any:
    """The logs of the last of `count` steps on `batch_at(0)`, `batch_at(1)`, ...

    Logs are carried out of the loop, since those of a custom step need not be metrics.

    :param count: a scalar, at least 1 where the shapes of the logs are not known.
    :param compiled: whether XLA compiles the loop: its logs must keep their shape then, so where
        that is not known the first step stands before the loop.
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


def _without_optionals(data: Any) -> Any:
    """Keras hands None to tf.data as an empty optional, and takes it back before the step."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda part: None if isinstance(part, tf.experimental.Optional) else part, data
    )
