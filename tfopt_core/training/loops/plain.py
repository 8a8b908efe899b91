"""The chunked and resident loops as plain functions, which `tfopt export` copies into its file.

`tfopt export` writes them out, with the functions of `graph_steps` and `stacking` that they call.
A training uses the classes of `chunked` and `resident` instead, which also count their steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.training.loops.graph_steps import (
    logs_spec,
    no_logs,
    one_step,
    repeated,
    shapes_of_logs,
)
from tfopt_core.training.loops.stacking import stacked


def chunked(model: Any, steps: int, *, jit_compile: bool = False) -> Any:
    """Return a train function for `fit` that makes up to `steps` steps in one graph.

    :param jit_compile: whether XLA compiles each step.
    """

    step = one_step(model, jit_compile=jit_compile)

    def chunk(iterator: Any) -> Any:
        return one_by_one(iterator, step, steps)

    return train_function_of(chunk)


def train_function_of(chunk: Any) -> Any:
    """Return a train function of a chunk, which returns how many steps it made, and their logs."""
    import tensorflow as tf

    chunk = tf.function(chunk, autograph=False, reduce_retracing=True)

    def train_function(iterator: Any) -> Any:
        made, logs = chunk(iterator)
        if not int(made):
            raise StopIteration
        return logs

    return train_function


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


def compiled_chunks(model: Any, steps: int, batch_size: int) -> Any:
    """Return a train function for `fit` whose call of up to `steps` steps XLA compiles whole.

    The batches are stacked first. A batch of another size (the last one of an epoch) and those
    after it in the chunk are trained on without XLA: compiling for that size takes too long.

    :param batch_size: examples of a whole batch.
    """
    import tensorflow as tf

    step = one_step(model, jit_compile=False)
    # a separate function: one that was traced for any size would be reused for whole batches
    whole_step = one_step(model, jit_compile=False)

    def chunk(iterator: Any) -> Any:
        batch = whole_batch(iterator.element_spec, batch_size)
        stack, count, odd, other = stacked(iterator, batch, steps)

        def whole(stack: Any, count: Any) -> Any:
            def batch_at(index: Any) -> Any:
                return tf.nest.map_structure(lambda part: part[index], stack)

            return repeated(whole_step, batch_at, batch, count, compiled=True)

        whole = tf.function(whole, autograph=False, jit_compile=True)
        nothing = no_logs(logs_spec(step, iterator.element_spec))
        logs = tf.cond(count > 0, lambda: whole(stack, count), lambda: nothing)

        def with_odd() -> Any:
            made, last = one_by_one(iterator, step, steps - count - 1, step(other))
            return made + 1, last

        alone, logs = tf.cond(odd, with_odd, lambda: (tf.constant(0), logs))
        return count + alone, logs

    return train_function_of(chunk)


def whole_batch(spec: Any, size: int) -> Any:
    """Return the specification of a batch of this size."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda part: tf.TensorSpec([size, *part.shape[1:]], part.dtype), spec
    )


def resident(
    model: Any,
    examples: Any,
    batch_size: int,
    steps: int,
    *,
    maps: Sequence[Any] = (),
    jit_compile: bool = False,
    drop_remainder: bool = False,
) -> Any:
    """Return a train function for `fit` whose iterator yields the order of an epoch's examples.

    It gathers each batch from the examples, which stay on the device.

    :param examples: a structure of tensors that share their first axis.
    :param steps: the most steps of a call of the graph.
    :param maps: functions of a whole batch.
    :param jit_compile: whether XLA compiles a call as a whole.
    """
    import tensorflow as tf

    count = len(tf.nest.flatten(examples)[0])
    full = count // batch_size
    maps = [tf.function(function) for function in maps]

    def gathered(rows: Any) -> Any:
        batch = tf.nest.map_structure(lambda part: tf.gather(part, rows), examples)
        for function in maps:
            batch = function(*batch) if isinstance(batch, tuple) else function(batch)
        return batch

    gather = tf.function(gathered, autograph=False)
    step = one_step(model, jit_compile=False)
    # a separate function for XLA: `step` must be traced for the known size only
    alone = one_step(model, jit_compile=False) if jit_compile else step
    # XLA needs the size of a batch; without XLA the shape is left as open as in tf.data
    known = jit_compile or drop_remainder
    rows = tf.TensorSpec([batch_size if known else None], tf.int32)
    batch = gather.get_concrete_function(rows).structured_outputs

    def run(order: Any, start: Any, count: Any, size: Any) -> Any:
        def batch_at(done: Any) -> Any:
            # not a slice: XLA compiles anew for each value of the begin of a slice
            places = (start + done) * batch_size + tf.range(batch_size if known else size)
            return gather(tf.gather(order, places))

        return repeated(step, batch_at, batch, count, compiled=jit_compile)

    run = tf.function(run, autograph=False, jit_compile=jit_compile)
    last = tf.function(lambda rows: alone(gather(rows)), autograph=False)

    def train_function(iterator: Any) -> Any:
        order, size, logs = next(iterator), tf.constant(batch_size), None
        for start in range(0, full, steps):
            made = min(steps, full - start)
            logs = run(order, tf.constant(start), tf.constant(made), size)
        if count > full * batch_size and not drop_remainder:
            logs = last(order[full * batch_size :])  # smaller: not worth a compilation of its own
        return logs

    return train_function
