"""The chunked loop: one call of the train function makes many steps on an iterator's batches.

Without XLA the graph takes a batch and makes its step in turn. With XLA it takes the whole chunk
first, stacks it, and one compiled function makes all its steps. A batch of another shape (the last
one of an epoch), what comes after it in the chunk, and a chunk of one batch are stepped on without
XLA: to compile for such a shape takes longer than it could ever save.
"""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.training.graph_steps import (
    logs_spec,
    no_logs,
    one_step,
    repeated,
    shapes_of_logs,
)
from tfopt_core.training.made import LoopMade


@attrs.define(eq=False)
class ChunkedFunction:
    """A train function for `fit`: up to `steps` steps a call.

    :param jit_compile: whether XLA compiles the chunk, or each step where it cannot be stacked.
    :param made: counts what the calls make.
    """

    model: Any
    steps: int
    jit_compile: bool
    made: LoopMade = attrs.field(factory=lambda: LoopMade(kind="chunked"))
    _step: Any = attrs.field(init=False)
    _compiled_step: Any = attrs.field(init=False)
    _call: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        self.made.steps_per_call = self.steps
        self._step = one_step(self.model, jit_compile=False)
        self._compiled_step = one_step(self.model, jit_compile=self.jit_compile)
        self._call = tf.function(self._chunk, autograph=False, reduce_retracing=True)

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps.

        :raises StopIteration: if there was no batch left.
        """
        import tensorflow as tf

        if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            whole, alone, logs = self._call(iterator)
            self.made.count(int(whole) + int(alone), int(whole))
            if not self.made.last_call:
                raise StopIteration
            return logs
        logs, made = None, 0  # train_on_batch hands over a generator of one batch
        for _, batch in zip(range(self.steps), iterator, strict=False):
            logs, made = self._compiled_step(batch), made + 1
        self.made.count(made, 0)
        return logs

    def _chunk(self, iterator: Any) -> Any:
        """Steps made in a compiled chunk, steps made otherwise, and the logs of the last one."""
        import tensorflow as tf

        none = tf.constant(0)
        if self.jit_compile:
            self.made.why_not_whole = why_not_stacked(iterator.element_spec)
        if not self.jit_compile or self.made.why_not_whole:
            made, logs = self._one_by_one(iterator, self._compiled_step, self.steps)
            return none, made, logs
        first = iterator.get_next_as_optional()
        spec = logs_spec(self._step, iterator.element_spec)
        return tf.cond(
            first.has_value(),
            lambda: self._whole(iterator, first.get_value()),
            lambda: (none, none, no_logs(spec)),
        )

    def _one_by_one(self, iterator: Any, step: Any, limit: Any, logs: Any = None) -> Any:
        """How many steps there were, and the logs of the last one."""
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

    def _whole(self, iterator: Any, first: Any) -> Any:
        """The chunk that begins with this batch."""
        import tensorflow as tf

        spec = iterator.element_spec
        stacked, count, odd, batch = _stacked(iterator, first, self.steps)

        def compiled(stack: Any, count: Any) -> Any:
            def batch_at(index: Any) -> Any:
                return tf.nest.map_structure(lambda part: part[index], stack)

            return repeated(self._step, batch_at, spec, count, compiled=True)

        whole = tf.function(compiled, autograph=False, jit_compile=True)
        logs = tf.cond(count > 1, lambda: whole(stacked, count), lambda: self._step(first))
        together = tf.where(count > 1, count, 0)

        def with_odd() -> Any:
            limit = self.steps - count - 1
            made, last = self._one_by_one(iterator, self._step, limit, self._step(batch))
            return together, count - together + 1 + made, last

        return tf.cond(odd, with_odd, lambda: (together, count - together, logs))


def why_not_stacked(spec: Any) -> str:
    """Why batches of this specification cannot be stacked for XLA, "" if they can."""
    import tensorflow as tf

    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec):
            return f"batches hold a {type(part).__name__.removesuffix('Spec')}"
        if part.shape.rank is None:
            return "batches hold tensors of unknown rank"
        if not (part.dtype.is_floating or part.dtype.is_integer or part.dtype.is_bool):
            return f"batches hold {part.dtype.name} tensors"
    return ""


def _stacked(iterator: Any, first: Any, steps: int) -> Any:
    """The batches of a chunk, from this one on, as long as they have its shape.

    :returns: the stack (of `steps` batches, the missing ones as any); how many are meant; whether
        a batch of another shape ended it, and that batch.
    """
    import tensorflow as tf

    specs = tf.nest.flatten(iterator.element_spec)
    parts = tf.nest.flatten(first)
    arrays = [
        tf.TensorArray(spec.dtype, steps, element_shape=spec.shape, infer_shape=False).write(0, p)
        for spec, p in zip(specs, parts, strict=True)
    ]

    def sizes(parts: Any) -> Any:
        return [
            tf.shape(part)
            for spec, part in zip(specs, parts, strict=True)
            if not spec.shape.is_fully_defined()
        ]

    sizes_of_first = sizes(parts)

    def like_first(parts: Any) -> Any:
        same = tf.constant(True)
        for size, of_first in zip(sizes(parts), sizes_of_first, strict=True):
            same &= tf.reduce_all(size == of_first)
        return same

    def body(count: Any, goes_on: Any, odd: Any, batch: Any, arrays: Any) -> Any:
        following = iterator.get_next_as_optional()
        there = following.has_value()
        batch = tf.cond(there, lambda: tf.nest.flatten(following.get_value()), lambda: parts)
        goes_on = there & like_first(batch)
        # what is written past the end is not meant, but must have the shape of the others
        fits = tf.cond(goes_on, lambda: batch, lambda: parts)
        arrays = [array.write(count, part) for array, part in zip(arrays, fits, strict=True)]
        return count + tf.cast(goes_on, tf.int32), goes_on, there & ~goes_on, batch, arrays

    scalar = tf.TensorShape([])
    shapes = [spec.shape for spec in specs]
    count, _, odd, batch, arrays = tf.while_loop(
        lambda count, goes_on, *_: goes_on & (count < steps),
        body,
        (tf.constant(1), tf.constant(True), tf.constant(False), parts, arrays),
        shape_invariants=(scalar, scalar, scalar, shapes, [scalar for _ in arrays]),
        parallel_iterations=1,
    )
    structure = iterator.element_spec
    stack = tf.nest.pack_sequence_as(structure, [array.stack() for array in arrays])
    return stack, count, odd, tf.nest.pack_sequence_as(structure, batch)
