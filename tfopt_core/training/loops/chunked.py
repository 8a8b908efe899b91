"""The chunked loop: one call of the train function makes many steps on an iterator's batches.

Without XLA the graph takes a batch, makes its step and takes the next. With XLA it takes the whole
chunk first and stacks it, and one compiled function makes all its steps. A batch of another size
(the last one of an epoch) and those after it in the chunk are trained on without XLA: compiling
for that size takes longer than it could save.
"""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.training.loops.graph_steps import (
    TracedSteps,
    logs_spec,
    no_logs,
    repeated,
    shapes_of_logs,
)
from tfopt_core.training.loops.pass_end import PassEnd
from tfopt_core.training.loops.report import LoopReport
from tfopt_core.training.loops.stacking import sized, sizes_of, stacked, why_not_stacked


@attrs.define(eq=False)
class ChunkedFunction:
    """A train function for `fit`: up to `steps` steps a call.

    :param traced: the steps of the model.
    :param jit_compile: whether XLA compiles the chunk, or each step where it cannot be stacked.
    :param batch_size: examples of a whole batch, None if unknown. Then, or if other axes vary, the
        first batch of all counts as a whole batch, and the first call is not compiled.
    :param whole: whether XLA compiles a chunk as one function, rather than each step.
    :param ends: what a call does that finds too few batches.
    :param report: counts the steps and calls.
    """

    traced: TracedSteps
    steps: int
    jit_compile: bool
    batch_size: int | None = None
    whole: bool = True
    ends: PassEnd = attrs.field(factory=PassEnd)
    report: LoopReport = attrs.field(factory=lambda: LoopReport(kind="chunked"))
    _whole_batch: Any = None
    _step: Any = attrs.field(init=False)
    _compiled_step: Any = attrs.field(init=False)
    _single: Any = attrs.field(init=False)
    _alone: Any = attrs.field(init=False)
    _chunk: Any = None
    _logs: Any = None

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        self.report.steps_per_call = self.steps
        self._step = self.traced.step("step")
        self._compiled_step = self.traced.step("step", jit_compile=self.jit_compile)
        step = self._compiled_step
        self._single = tf.function(
            lambda iterator: step(iterator.get_next()), autograph=False, reduce_retracing=True
        )
        self._alone = tf.function(self._steps_alone, autograph=False, reduce_retracing=True)

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps and return the logs of the last one.

        :raises StopIteration: if the pass over the data has ended, as `PassEnd` says.
        :raises tensorflow.errors.OutOfRangeError: the same, for single steps.
        """
        import tensorflow as tf

        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            return self._given(iterator)
        if self.steps == 1 and not (self.jit_compile and self.whole):
            logs = self._single(iterator)  # which fails past the end, as in Keras' own loop
            self.report.count(1, 0)
            return logs
        self.report.last_call = 0
        most = self.ends.most_steps(iterator, self.steps)
        if not most:
            return self._logs
        if most == self.steps and self._compiles_chunk(iterator.element_spec):
            whole, alone, logs = self._chunk(iterator)
            self.report.count(int(whole) + int(alone), int(whole))
        else:
            made, logs, sizes = self._alone(iterator, tf.constant(most))
            self.report.count(int(made), 0)
            if self.jit_compile and self.whole and not self.report.why_not_whole and int(made):
                self._whole_batch = sized(iterator.element_spec, sizes)
        self.ends.check(self.report.last_call, most, logs, self._step, lambda: iterator)
        self._logs = logs
        return logs

    def _given(self, batches: Any) -> Any:
        """Make a step on the batch that `train_on_batch` passes in a generator."""
        logs, made = None, 0
        for _, batch in zip(range(self.steps), batches, strict=False):
            logs, made = self._compiled_step(batch), made + 1
        self.report.count(made, 0)
        return logs

    def _compiles_chunk(self, spec: Any) -> bool:
        """Return whether chunks are compiled whole, as far as is known by now."""
        import tensorflow as tf

        if not self.jit_compile or not self.whole or self.report.why_not_whole:
            return False
        if self._chunk is None:
            self.report.why_not_whole = why_not_stacked(spec)
            if self.report.why_not_whole:
                return False
            if self._whole_batch is None:
                self._whole_batch = sized(spec, self.batch_size)
            if self._whole_batch is not None:
                self._chunk = tf.function(self._steps_whole, autograph=False, reduce_retracing=True)
        return self._chunk is not None

    def _steps_alone(self, iterator: Any, most: Any) -> Any:
        """Return the number of steps, the logs of the last one, and the first batch's sizes."""
        by_step = self.report.why_not_whole or not self.whole
        step = self._compiled_step if by_step else self._step
        return self._one_by_one(iterator, step, most)

    def _one_by_one(self, iterator: Any, step: Any, limit: Any, logs: Any = None) -> Any:
        import tensorflow as tf

        spec = logs_spec(step, iterator.element_spec)

        def body(made: Any, _: Any, logs: Any, sizes: Any) -> Any:
            batch = iterator.get_next_as_optional()
            there = batch.has_value()
            logs, now = tf.cond(
                there,
                lambda: (step(batch.get_value()), sizes_of(batch.get_value())),
                lambda: (logs, sizes),
            )
            sizes = tf.cond(made > 0, lambda: sizes, lambda: now)
            return made + tf.cast(there, tf.int32), there, logs, sizes

        made, _, logs, sizes = tf.while_loop(
            lambda made, there, *_: there & (made < limit),
            body,
            (
                tf.constant(0),
                tf.constant(True),
                no_logs(spec) if logs is None else logs,
                sizes_of(iterator.element_spec),
            ),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([]),
                shapes_of_logs(spec),
                tf.TensorShape([None]),
            ),
            parallel_iterations=1,
        )
        return made, logs, sizes

    def _steps_whole(self, iterator: Any) -> Any:
        """Return the steps made in a compiled chunk, those made alone, and the logs of the last
        one."""
        import tensorflow as tf

        spec = self._whole_batch
        stack, count, odd, batch = stacked(iterator, spec, self.steps)

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
            limit = self.steps - count - 1
            made, last, _ = self._one_by_one(iterator, self._step, limit, self._step(batch))
            return made + 1, last

        alone, logs = tf.cond(odd, with_odd, lambda: (tf.constant(0), logs))
        return count, alone, logs
