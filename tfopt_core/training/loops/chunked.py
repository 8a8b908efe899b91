"""The chunked loop: one call of the train function makes many steps on an iterator's batches.

Without XLA the graph takes a batch, makes its step and takes the next. With XLA it takes the whole
chunk first and stacks it, and one compiled function makes all its steps. A batch of another size
(the last one of an epoch) and those after it in the chunk are trained on without XLA: compiling
for that size takes longer than it could save.
"""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.lazy import tf
from tfopt_core.training.loops.graph_steps import (
    PassEnd,
    TracedSteps,
    logs_spec,
    no_logs,
    one_by_one,
    repeated,
)
from tfopt_core.training.loops.report import Loop, LoopReport


@attrs.define(eq=False)
class ChunkedFunction:
    """A train function for `fit`: up to `loop.steps` steps a call.

    :param traced: the steps of the model.
    :param loop: "chunked", or "keras" for the steps of Keras' own loop, which XLA compiles singly.
        It does so too with the steps of a chunk that cannot be stacked.
    :param batch_size: examples of a whole batch, None if unknown. Then, or if other axes vary, XLA
        compiles single steps.
    :param ends: what a call does that finds too few batches.
    :ivar report: counts the steps and calls.
    """

    traced: TracedSteps
    loop: Loop
    batch_size: int | None = None
    ends: PassEnd = attrs.field(factory=PassEnd)
    report: LoopReport = attrs.field(init=False)
    _step: Any = attrs.field(init=False)
    _compiled_step: Any = attrs.field(init=False)
    _chunk: Any = attrs.field(init=False)
    _logs: Any = None
    _draws: bool | None = None

    def __attrs_post_init__(self) -> None:
        self.report = LoopReport(kind=self.loop.kind, steps_per_call=self.loop.steps)
        self._step = self.traced.step("step")
        self._compiled_step = self.traced.step("step", jit_compile=self.loop.jit_compile)
        self._chunk = tf.function(self._steps_whole, autograph=False, reduce_retracing=True)

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps and return the logs of the last one.

        :raises StopIteration: if the pass over the data has ended, as `PassEnd` says.
        :raises tensorflow.errors.OutOfRangeError: the same, for single steps.
        """
        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            logs = self._compiled_step(next(iterator))  # train_on_batch hands over a generator
            self.report.count(1, 0)
            return logs
        if self._makes_single_steps(iterator):
            # which fails past the end, as in Keras' own loop
            logs = self.traced.single(iterator, jit_compile=self.loop.jit_compile)
            self.report.count(1, 0)
            return logs
        self.report.last_call = 0
        steps = self.ends.steps_of_call(self.loop.steps)
        most = self.ends.most_steps(iterator, steps)
        if not most:
            return self._logs
        try:
            logs = self._steps(iterator, most)
        except tf.errors.OpError as error:
            self.ends.note_failure(error, self.traced.single, iterator.element_spec)
            raise
        self.ends.check(self.report.last_call, most, logs, self.traced.single, lambda: iterator)
        self._logs = logs
        return logs

    def _steps(self, iterator: Any, most: int) -> Any:
        """Make up to `most` steps and return the logs of the last one."""
        if most == self.loop.steps and self._compiles_chunk(iterator.element_spec):
            whole, alone, logs = self._chunk(iterator)
            self.report.count(int(whole) + int(alone), int(whole))
        else:
            by_step = bool(self.report.why_not_whole) or self.loop.kind == "keras"
            compiled = self.loop.jit_compile and by_step
            made, logs = self.traced.one_by_one(iterator, most, jit_compile=compiled)
            self.report.count(int(made), 0)
        return logs

    def _makes_single_steps(self, iterator: Any) -> bool:
        """Return whether each call makes a step without a loop, in another function than calls of
        several steps: what a step draws by TensorFlow would begin again there."""
        if self.loop.steps > 1 or self.loop.compiles_whole:
            return False
        if self._draws is None:
            self._draws = not self.loop.jit_compile and self.traced.draws(iterator.element_spec)
        return not self._draws

    def _compiles_chunk(self, spec: Any) -> bool:
        """Return whether chunks of batches of this specification are compiled whole."""
        if not self.loop.compiles_whole:
            return False
        self.report.why_not_whole = why_not_stacked(sized(spec, self.batch_size))
        return not self.report.why_not_whole

    def _steps_whole(self, iterator: Any) -> Any:
        """Return the steps made in a compiled chunk, those made alone, and the logs of the last
        one."""
        spec = sized(iterator.element_spec, self.batch_size)
        stack, count, odd, batch = stacked(iterator, spec, self.loop.steps)

        # a separate function: one that was traced for any size would be reused here, and XLA cannot
        # compile every operation (of recurrent layers, for example) for an unknown size
        step = self.traced.step("whole")

        def compiled(stack: Any, count: Any) -> Any:
            def batch_at(index: Any) -> Any:
                return tf.nest.map_structure(lambda part: part[index], stack)

            return repeated(step, batch_at, spec, count, compiled=True)

        whole = tf.function(compiled, autograph=False, jit_compile=True)
        nothing = no_logs(logs_spec(self._step, iterator.element_spec))
        logs = tf.cond(count > 0, lambda: whole(stack, count), lambda: nothing)

        def with_odd() -> Any:
            limit = self.loop.steps - count - 1
            made, last = one_by_one(iterator, self._step, limit, self._step(batch))
            return made + 1, last

        alone, logs = tf.cond(odd, with_odd, lambda: (tf.constant(0), logs))
        return count, alone, logs


def why_not_stacked(spec: Any) -> str:
    """Return why batches of this specification cannot be stacked for XLA; empty if they can."""
    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec):
            return f"batches hold a {type(part).__name__.removesuffix('Spec')}"
        if part.shape.rank is None:
            return "batches hold tensors of unknown rank"
        if not (part.dtype.is_floating or part.dtype.is_integer or part.dtype.is_bool):
            return f"batches hold {part.dtype.name} tensors"
        if not part.shape.is_fully_defined():
            return "batches hold tensors of unknown size"
    return ""


def sized(spec: Any, batch_size: int | None) -> Any:
    """Return the specification of a batch of so many examples."""

    def closed(part: Any) -> Any:
        if not isinstance(part, tf.TensorSpec) or not part.shape.rank or part.shape[0] is not None:
            return part
        return tf.TensorSpec([batch_size, *part.shape[1:]], part.dtype)

    return tf.nest.map_structure(closed, spec)


def stacked(iterator: Any, spec: Any, steps: int) -> Any:
    """Take the next batches of an iterator and stack them, up to the first of another size.

    :returns: the stack, padded to `steps` batches; how many of them are valid; whether a batch of
        another size ended it; and that batch.
    """
    specs, open_specs = tf.nest.flatten(spec), tf.nest.flatten(iterator.element_spec)
    arrays = [tf.TensorArray(s.dtype, steps, element_shape=s.shape) for s in specs]

    def zeros() -> Any:
        return [tf.zeros(s.shape, s.dtype) for s in specs]

    def body(count: Any, goes_on: Any, odd: Any, batch: Any, arrays: Any) -> Any:
        following = iterator.get_next_as_optional()
        there = following.has_value()
        batch = tf.cond(there, lambda: tf.nest.flatten(following.get_value()), lambda: batch)
        sizes = [tf.shape(part) == s.shape for part, s in zip(batch, specs, strict=True)]
        goes_on = there & tf.reduce_all(tf.concat(sizes, 0))
        # padding past the end must have the size of the others
        fits = tf.cond(
            goes_on,
            lambda: [_with_shape(p, s.shape) for p, s in zip(batch, specs, strict=True)],
            zeros,
        )
        arrays = [array.write(count, part) for array, part in zip(arrays, fits, strict=True)]
        return count + tf.cast(goes_on, tf.int32), goes_on, there & ~goes_on, batch, arrays

    scalar = tf.TensorShape([])
    none = [tf.zeros([size or 0 for size in s.shape], s.dtype) for s in open_specs]
    count, _, odd, batch, arrays = tf.while_loop(
        lambda count, goes_on, *_: goes_on & (count < steps),
        body,
        (tf.constant(0), tf.constant(True), tf.constant(False), none, arrays),
        shape_invariants=(
            scalar, scalar, scalar, [s.shape for s in open_specs], [scalar for _ in arrays],
        ),
        parallel_iterations=1,
    )  # fmt: skip
    stack = tf.nest.pack_sequence_as(spec, [array.stack() for array in arrays])
    return stack, count, odd, tf.nest.pack_sequence_as(spec, batch)


def _with_shape(tensor: Any, shape: Any) -> Any:
    """Return the tensor with its static shape set. (`tf.ensure_shape` is checked in a branch that
    is not taken, too.)"""
    result = tf.identity(tensor)
    result.set_shape(shape)
    return result
