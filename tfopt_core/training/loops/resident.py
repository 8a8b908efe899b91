"""The resident loop: the graph gathers batches from a data set that is held on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, MapBatches, Resident, Stage
from tfopt_core.data.batching import KerasShuffle
from tfopt_core.data.resident import why_not_gathered
from tfopt_core.training.loops.epoch_order import EpochOrders, shuffles_as_lowered
from tfopt_core.training.loops.graph_steps import TracedSteps, repeated
from tfopt_core.training.loops.pass_end import PassEnd
from tfopt_core.training.loops.report import LoopReport

# Indices are int32: a gather by int64 is slower on a CPU, and no device holds more examples.
_MOST_EXAMPLES = 2**31 - 1


@attrs.frozen(eq=False)
class ResidentData:
    """The examples that the device holds, and how each epoch batches them.

    :param rows: `DeviceRows` of the examples.
    :param index: the type of the indices of examples.
    :param passes: returns a data set of the orders of Keras' own shuffle, as `KerasShuffle` has it;
        None for other shuffles.
    """

    rows: Any
    index: Any
    count: int
    batch: Batch
    maps: tuple[MapBatches, ...]
    orders: EpochOrders
    passes: Callable[[], Any] | None = None

    @property
    def full_batches(self) -> int:
        """The number of full batches in an epoch."""
        return self.count // self.batch.size

    @property
    def batches(self) -> int:
        """The number of all batches in an epoch."""
        left = self.count % self.batch.size
        return self.full_batches + (left > 0 and not self.batch.drop_remainder)


def resident_data(
    plan: DataPlan, lowered: Any, drawn: Callable[[], int] | None = None
) -> ResidentData:
    """Return what a lowered plan holds on the device.

    :param drawn: see `EpochOrders`.
    :raises ValueError: if `why_not_resident` gives a reason.
    """
    import tensorflow as tf

    reason = why_not_resident(plan)
    if reason:
        raise ValueError(reason)
    resident, behind = _split(plan)
    assert resident is not None
    held = resident.held
    assert held.count is not None
    shuffles = shuffles_as_lowered(behind, lowered)
    return ResidentData(
        rows=held.rows,
        # an epoch's order of int32 would lie in the memory of the machine, and be copied each step
        index=tf.int64 if held.on_gpu else tf.int32,
        count=held.count,
        batch=next(stage for stage in behind if isinstance(stage, Batch)),
        maps=tuple(stage for stage in behind if isinstance(stage, MapBatches)),
        orders=EpochOrders(held.count, shuffles, drawn),
        passes=next((s.passes for s in behind if isinstance(s, KerasShuffle)), None),
    )


def why_not_resident(plan: DataPlan) -> str:
    """Return why batches cannot be gathered from what this plan holds; empty if they can."""
    resident, behind = _split(plan)
    if resident is None:
        return "the training data are not held on the device"
    if resident.held.count is not None and resident.held.count > _MOST_EXAMPLES:
        return f"{resident.held.count:,} examples are more than {_MOST_EXAMPLES:,}"
    return why_not_gathered(behind)


def _split(plan: DataPlan) -> tuple[Resident | None, tuple[Stage, ...]]:
    stages = plan.lowering_order()
    place = next((i for i, stage in enumerate(stages) if isinstance(stage, Resident)), None)
    if place is None:
        return None, ()
    resident = stages[place]
    assert isinstance(resident, Resident)
    return resident, stages[place + 1 :]


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
    :param steps: the most steps of a call.
    :param jit_compile: whether XLA compiles a call whole.
    :param class_weight: as `fit` takes it; Keras would apply it to the iterator's batches.
    :param ends: what a call does that finds too few batches.
    :param reads_order: whether Keras iterates over `data.passes`.
    :param report: counts the steps and calls.
    :param under_way: the pass of the last call. A function that takes the place of another one
        within a fit goes on with that one's.
    """

    traced: TracedSteps
    data: ResidentData
    steps: int
    jit_compile: bool
    class_weight: Any = None
    ends: PassEnd = attrs.field(factory=PassEnd)
    reads_order: bool = False
    report: LoopReport = attrs.field(factory=lambda: LoopReport(kind="resident"))
    under_way: PassUnderWay = attrs.field(factory=PassUnderWay)
    _single: Any = attrs.field(init=False)
    _run: Any = attrs.field(init=False)
    _last: Any = attrs.field(init=False)
    _ended: Callable[[], Any] = attrs.field(init=False)
    _batch_size: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        self.report.steps_per_call = self.steps
        self._single = self.traced.step("step", jit_compile=self.jit_compile)
        # a separate function for XLA, which must be traced for the known size only
        step = self.traced.step("whole" if self.jit_compile else "step")
        alone = self.traced.step("step")
        size = self.data.batch.size
        gather = _gathering(self.data, self.class_weight)

        # XLA needs the size of a batch. Without XLA the shape is left as open as in the stock
        # pipeline, or the graph would be optimized differently, and round differently.
        known = self.jit_compile or self.data.batch.drop_remainder
        rows = tf.TensorSpec([size if known else None], self.data.index)
        spec = gather.get_concrete_function(rows).structured_outputs

        def run(order: Any, start: Any, count: Any, batch_size: Any) -> Any:
            def batch_at(done: Any) -> Any:
                # not a slice: XLA compiles anew for each value of the begin of a slice
                places = (start + done) * size + tf.range(size if known else batch_size)
                return gather(tf.gather(order, places))

            return repeated(step, batch_at, spec, count, compiled=self.jit_compile)

        def last(order: Any) -> Any:
            """Make the step on the epoch's last batch, which is smaller and not worth a
            compilation."""
            return alone(gather(tf.slice(order, [self.data.full_batches * size], [-1])))

        self._batch_size = tf.constant(size)
        self._ended = lambda: iter(_without_batches(spec))
        self._run = tf.function(run, autograph=False, jit_compile=self.jit_compile)
        self._last = tf.function(last, autograph=False)

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps of the epoch and return the logs of the last one.

        :raises StopIteration: if the pass over the data has ended, as `PassEnd` says.
        """
        import tensorflow as tf

        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            logs = self._single(next(iterator))  # train_on_batch hands over a generator
            self.report.count(1, 0)
            return logs
        self.report.last_call = 0
        if iterator is not self.under_way.iterator:
            order = next(iterator) if self.reads_order else self.data.orders.next_epoch()
            self.under_way = PassUnderWay(iterator, tf.cast(order, self.data.index))
        done = self.under_way.done
        count = min(self.steps, self.data.batches - done)
        logs = self._steps(done, count) if count > 0 else None
        self.under_way.done += max(0, count)
        # the iterator's own batches are never read, so that one without any takes its place
        self.ends.check(count, self.steps, logs, self.traced.step("step"), self._ended)
        return logs

    def _steps(self, start: int, count: int) -> Any:
        import tensorflow as tf

        logs = None
        full, order = max(0, min(count, self.data.full_batches - start)), self.under_way.order
        self.report.count(count, full if self.jit_compile else 0)
        if full:
            logs = self._run(order, tf.constant(start), tf.constant(full), self._batch_size)
        return self._last(order) if full < count else logs


def _gathering(data: ResidentData, class_weight: Any) -> Any:
    """Return a `tf.function` from the indices of examples to their batch as the plan makes it."""
    import tensorflow as tf

    # traced as tf.data traces a map's function: with AutoGraph
    maps: list[Callable[..., Any]] = [tf.function(stage.function) for stage in data.maps]
    if class_weight is not None:
        from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

        maps.append(tf.function(make_class_weight_map_fn(class_weight)))

    def gather(rows: Any) -> Any:
        batch = tf.nest.map_structure(lambda part: part.gather(rows), data.rows)
        for function in maps:
            batch = function(*batch) if isinstance(batch, tuple) else function(batch)
        return batch

    return tf.function(gather, autograph=False)


def _without_batches(spec: Any) -> Any:
    """Return a data set of such batches that yields none."""
    import tensorflow as tf

    signature = tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), spec)
    return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature)
