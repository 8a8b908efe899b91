"""The resident loop: the graph gathers batches from a data set that is held on the device.

Each pass has the order of the examples that tf.data would shuffle them in, without moving any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, MapBatches, Resident, Shuffle, Source, Stage
from tfopt_core.data.batching import KerasShuffle
from tfopt_core.data.lower import lower_stages
from tfopt_core.data.resident import why_not_gathered
from tfopt_core.training.loops.graph_steps import PassEnd, TracedSteps, repeated
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
    """Return what a lowered plan holds on the device, for which `why_not_resident` is empty.

    :param drawn: see `EpochOrders`.
    """
    import tensorflow as tf

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

        def last(order: Any, count: Any) -> Any:
            """Make the step on the epoch's last batch, which is smaller and not worth a
            compilation. Its shape is left as open as that of the others."""
            places = self.data.full_batches * size + tf.range(count)
            return alone(gather(tf.gather(order, places)))

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
        if full == count:
            return logs
        return self._last(order, tf.constant(self.data.count % self.data.batch.size))


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


@attrs.define(eq=False)
class EpochOrders:
    """The permutations of successive passes, equal to those of a data set shuffled likewise.

    tf.data draws the seeds of a pass when its iterator is *made*, and Keras makes more iterators
    than it reads: where it knows the number of batches, one at the end of each pass, which the next
    one replaces. The order of the pass that comes next is computed ahead, as if it came after as
    many iterators as the last one.

    :param count: the number of examples.
    :param shuffles: the shuffles between the examples and their batches.
    :param drawn: returns how many iterators were made so far, that of the pass that begins too;
        None, or 0 where a strategy makes them unseen, to take two for a pass.
    """

    count: int
    shuffles: tuple[Shuffle, ...]
    drawn: Callable[[], int] | None = None
    _last: int | None = None
    _stride: int = 2
    _orders: Any = None

    def next_epoch(self) -> Any:
        """Return the indices of all examples, int32, in the order of the pass that begins."""
        import tensorflow as tf

        if not self.shuffles:
            return tf.range(self.count)
        expected = 0 if self._last is None else self._last + self._stride
        drawn = 0 if self.drawn is None else self.drawn()
        place = drawn - 1 if drawn else expected
        if self._orders is None or place != expected:
            if self._last is not None:
                self._stride = max(1, place - self._last)
            self._orders = iter(_orders(self.count, self.shuffles, place, self._stride))
        self._last = place
        return next(self._orders)


def shuffles_as_lowered(stages: Sequence[Any], lowered: Any) -> tuple[Shuffle, ...]:
    """Return the shuffles among these stages, with the seeds that the lowered data set has drawn.

    :param stages: the stages after the one that holds the examples.
    :param lowered: the data set that the plan of these stages was lowered to.
    """
    planned = tuple(stage for stage in stages if isinstance(stage, Shuffle))
    seeded = tuple(s for s in DataPlan.from_dataset(lowered).stages if isinstance(s, Shuffle))
    if len(seeded) != len(planned):
        return planned
    # a kind of shuffle of its own is lowered to more than one stage, and takes the seed alone
    return tuple(
        found if type(own) is Shuffle else attrs.evolve(own, seed=found.seed)
        for own, found in zip(planned, seeded, strict=True)
    )


def _orders(count: int, shuffles: Sequence[Shuffle], skipped: int, stride: int) -> Any:
    """Return a data set of the orders of all passes, computed one ahead in the background.

    One iterator yields them all, since making an iterator takes as long as many small steps.

    :param skipped: how many iterators have been made before.
    :param stride: how many are made for each pass; the first of them is read.
    """
    import tensorflow as tf

    source = Source(value=(0, count, 1), origin="range", count=count)
    indices = lower_stages((source, *shuffles))
    used = indices.batch(count).map(lambda order: tf.cast(order, tf.int32))
    # makes an iterator over the shuffle, which draws its seeds, and takes nothing from it
    empty = tf.data.Dataset.range(0)
    unread = tf.data.Dataset.zip((empty, used)).map(lambda _, order: order)
    orders = used
    for _ in range(stride - 1):
        orders = orders.concatenate(unread)
    orders = orders.repeat()
    if skipped:
        # (repeat would make one iterator more, and nesting this many data sets would take seconds)
        orders = tf.data.Dataset.range(skipped).flat_map(lambda _: unread).concatenate(orders)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return orders.prefetch(1).with_options(options)
