"""The resident loop: the graph gathers batches from a data set that is held on the device.

Each pass has the order of the examples that tf.data would shuffle them in, without moving any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.data import MapBatches
from tfopt_core.data.functions import mapped_as_in_tf_data
from tfopt_core.errors import PluginRefused
from tfopt_core.lazy import tf
from tfopt_core.training.loops.graph_steps import PassEnd, TracedSteps, repeated, without_batches
from tfopt_core.training.loops.report import Loop, LoopReport
from tfopt_core.training.loops.resident_data import ResidentData

DRAWS_AGAIN = (
    "the model's step draws random numbers by TensorFlow, as tf.random.normal does, and this fit "
    "would draw those of an earlier one again"
)


@attrs.define(eq=False)
class PassUnderWay:
    """A pass over the data: what Keras iterates over in it, the order of all examples, and the
    number of batches so far."""

    iterator: Any = None
    order: Any = None
    done: int = 0


@attrs.define(eq=False)
class ResidentFunction:
    """A train function for `fit` that takes nothing from the iterator that it is called with.

    A new iterator means a new pass over the data, whose order is taken from `data`, or from the
    iterator itself if Keras iterates over `data.passes`.

    :param traced: the steps of the model.
    :param loop: how many steps a call makes at most, and whether XLA compiles it whole.
    :param class_weight: as `fit` takes it; Keras would apply it to the iterator's batches.
    :param ends: what a call does that finds too few batches.
    :param reads_order: whether Keras iterates over `data.passes`.
    :ivar steps: the most steps of a call: fewer where calls are only timed.
    :ivar report: counts the steps and calls.
    :param under_way: the pass of the last call. A function that takes the place of another one
        within a fit goes on with that one's.
    """

    traced: TracedSteps
    data: ResidentData
    loop: Loop
    class_weight: Any = None
    ends: PassEnd = attrs.field(factory=PassEnd)
    reads_order: bool = False
    under_way: PassUnderWay = attrs.field(factory=PassUnderWay)
    steps: int = attrs.field(init=False)
    report: LoopReport = attrs.field(init=False)
    _single: Any = attrs.field(init=False)
    _graphs: _Graphs = attrs.field(init=False)
    _held: Any = attrs.field(init=False)
    _batch_size: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.steps, jit_compile = self.loop.steps, self.loop.jit_compile
        self.report = LoopReport(kind=self.loop.kind, steps_per_call=self.steps)
        self._single = self.traced.step("step", jit_compile=jit_compile)
        self._held = tf.nest.map_structure(lambda part: part.held, self.data.rows)
        self._graphs = _Graphs.shared(
            self.traced, self.data, self.class_weight, jit_compile=jit_compile
        )
        self._batch_size = tf.constant(self.data.batch.size)

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps of the epoch and return the logs of the last one.

        :raises StopIteration: if the pass over the data has ended, as `PassEnd` says.
        """
        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            logs = self._single(next(iterator))  # train_on_batch hands over a generator
            self.report.count(1, 0)
            return logs
        self.report.last_call = 0
        if iterator is not self.under_way.iterator:
            order = next(iterator) if self.reads_order else self.data.orders.next_epoch()
            self.under_way = PassUnderWay(iterator, tf.cast(order, self.data.index))
        done = self.under_way.done
        steps = self.ends.steps_of_call(self.steps)
        count = min(steps, self.data.batches - done)
        logs = self._steps(done, count) if count > 0 else None
        self.under_way.done += max(0, count)
        # the iterator's own batches are never read, so that one without any takes its place
        single, spec = self.traced.single, self._graphs.spec
        self.ends.check(count, steps, logs, single, lambda: without_batches(spec))
        return logs

    def _steps(self, start: int, count: int) -> Any:
        logs, size = None, self._batch_size
        full, order = max(0, min(count, self.data.full_batches - start)), self.under_way.order
        self.report.count(count, full if self.loop.jit_compile else 0)
        if full:
            logs = self._graphs.run(
                self._held, order, tf.constant(start), tf.constant(full), size, size
            )
        if full == count:
            return logs
        left = tf.constant(self.data.count % self.data.batch.size)
        last = tf.constant(self.data.full_batches)
        if self.loop.jit_compile:
            return self._graphs.last(self._held, order, last, left)
        return self._graphs.run(self._held, order, last, tf.constant(1), size, left)


@attrs.frozen(eq=False)
class _Graphs:
    """Graphs that make steps on the batches of any examples of one form.

    The fits of a model share them, as they share Keras' own train function: an operation such as
    `tf.random.normal` goes on in each graph with what it has drawn there.

    :param run: makes steps on `count` batches of `rows` examples each, which begin `size` examples
        apart, from batch `start` on.
    :param last: with XLA, makes the step on the epoch's last batch, which is smaller and not worth
        a compilation.
    :param spec: the element spec of the batches.
    """

    run: Any
    last: Any
    spec: Any

    @classmethod
    def shared(
        cls, traced: TracedSteps, data: ResidentData, class_weight: Any, *, jit_compile: bool
    ) -> _Graphs:
        """Return those of an earlier fit where Keras' own loop would call the step that it has
        traced, or new ones. Of those with maps over batches the last ones are kept: the functions
        may hold data.

        :raises PluginRefused: if that step draws by TensorFlow, whose numbers would begin again.
        """
        forms = tf.nest.map_structure(lambda part: part.form, data.rows)
        known = data.batch.size if jit_compile else data.known
        maps = tuple(id(getattr(one.function, "concrete", one.function)) for one in data.maps)
        for other in [one for one in traced.loops if maps and one[0] not in ((), maps)]:
            del traced.loops[other]
        rest = repr((forms, data.index, class_weight, jit_compile))
        sizes = traced.loops.setdefault((maps, rest), {})
        if known not in sizes:
            loop = cls._of(traced, forms, data, class_weight, known, jit_compile=jit_compile)
            if not jit_compile and traced.called(loop.spec) != loop.spec:
                known = None  # Keras calls what it has traced for any size
                loop = cls._of(traced, forms, data, class_weight, None, jit_compile=False)
        if known not in sizes:
            if any(_takes(spec, loop.spec) for spec in traced.specs) and traced.draws(loop.spec):
                raise PluginRefused(DRAWS_AGAIN)
            traced.specs.append(loop.spec)
            sizes[known] = loop
        found: _Graphs = sizes[known]
        return found

    @classmethod
    def _of(
        cls, traced: TracedSteps, forms: Any, data: ResidentData, class_weight: Any,
        known: int | None, *, jit_compile: bool,
    ) -> _Graphs:  # fmt: skip
        # a separate function for XLA, which must be traced for the known size only
        step, alone = traced.step("whole" if jit_compile else "step"), traced.step("step")
        index, gather = data.index, _gathering(forms, data.maps, class_weight)
        held = tf.nest.map_structure(
            lambda part: tf.TensorSpec([None, *part.held.shape[1:]], part.held.dtype), data.rows
        )
        rows = tf.TensorSpec([known], index)
        spec = tf.nest.map_structure(
            lambda part: tf.TensorSpec(part.shape, part.dtype),
            gather.get_concrete_function(held, rows).structured_outputs,
        )

        def run(held: Any, order: Any, start: Any, count: Any, size: Any, rows: Any) -> Any:
            def batch_at(done: Any) -> Any:
                # not a slice: XLA compiles anew for each value of the begin of a slice
                places = (start + done) * size + tf.range(known or rows)
                return gather(held, tf.gather(order, places))

            return repeated(step, batch_at, spec, count, compiled=jit_compile)

        def last(held: Any, order: Any, first: Any, count: Any) -> Any:
            # its shape is left as open as that of the others
            return alone(gather(held, tf.gather(order, first * known + tf.range(count))))

        number, order = tf.TensorSpec([], tf.int32), tf.TensorSpec([None], index)
        return cls(
            tf.function(
                run, [held, order, *[number] * 4], autograph=False, jit_compile=jit_compile
            ),
            tf.function(last, [held, order, number, number], autograph=False),
            spec,
        )


def _takes(traced: Any, spec: Any) -> bool:
    """Return whether Keras would call a step that was traced for batches of one spec on those of
    another."""
    mine, other = tf.nest.flatten(traced), tf.nest.flatten(spec)
    pairs = zip(mine, other, strict=False)
    return len(mine) == len(other) and all(one.is_subtype_of(own) for own, one in pairs)


def _gathering(forms: Any, stages: Sequence[MapBatches], class_weight: Any) -> Any:
    """Return a `tf.function` from what is held, and indices of examples, to the plan's batch."""
    functions = [stage.function for stage in stages]
    if class_weight is not None:
        from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

        functions.append(make_class_weight_map_fn(class_weight))
    mapped = mapped_as_in_tf_data(functions)

    def gather(held: Any, rows: Any) -> Any:
        batch = tf.nest.map_structure(lambda form, part: form.gather(part, rows), forms, held)
        return mapped(batch)

    return tf.function(gather, autograph=False)
