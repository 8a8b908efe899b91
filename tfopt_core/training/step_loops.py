"""The loops that a diagnosis times: `fit` over data, one step in a graph, the data alone.

Each records when its calls returned; what that means is worked out in `measure.step_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.training.build import Built
from tfopt_core.training.watch import Watch

Clock = Callable[[], int]
# A graph loop's call is long enough for the clock, short enough to be repeated.
GRAPH_CALL_SECONDS = 0.15
DATA_CALL_SECONDS = 0.05


@attrs.frozen
class Call:
    """When a call had returned, in nanoseconds, the steps that it made, and whether it traced."""

    end: int
    steps: int
    traced: bool = False


@attrs.frozen
class TimedEpoch:
    """An epoch, or the beginning of one that was stopped (`complete` False)."""

    begin: int
    calls: tuple[Call, ...]
    complete: bool


@attrs.frozen
class Limits:
    """A loop ends with the epoch in which `seconds` have passed, and within one after `at_most`."""

    seconds: float
    at_most: float
    calls: int = 2


@attrs.define(eq=False)
class Recorder:
    """Notes the calls of one loop, epoch by epoch, and says when it has seen enough.

    :param sync: waits for the device, None on a CPU; a stamp at an epoch's edge comes after it.
    """

    limits: Limits
    steps_per_epoch: int | None
    steps_per_call: int = 1
    sync: Callable[[], None] | None = None
    now: Clock = perf_counter_ns
    epochs: list[TimedEpoch] = attrs.field(factory=list)
    _begun: int | None = None
    _epoch_begin: int = 0
    _calls: list[Call] = attrs.field(factory=list)
    _made: int = 0
    _count: int = 0

    def begin_epoch(self) -> None:
        """The first batch is about to be asked for."""
        self._epoch_begin = self.now()
        if self._begun is None:
            self._begun = self._epoch_begin
        self._calls, self._made = [], 0

    def called(self, *, traced: bool = False) -> bool:
        """A call has returned. Whether the loop should stop within the epoch."""
        steps = self.steps_per_call
        if self.steps_per_epoch is not None:
            steps = min(steps, max(0, self.steps_per_epoch - self._made))
        if self.sync is not None and not self._calls:
            self.sync()  # the epoch's beginning is told apart from what follows
        end = self.now()
        self._calls.append(Call(end, steps, traced))
        self._made += steps
        self._count += 1
        return self._elapsed(end) >= self.limits.at_most and self._count >= self.limits.calls

    def end_epoch(self, *, complete: bool) -> bool:
        """The epoch is over, or was left. Whether the loop should stop."""
        if self._calls:
            if self.sync is not None:
                self.sync()
                self._calls[-1] = attrs.evolve(self._calls[-1], end=self.now())
            self.epochs.append(TimedEpoch(self._epoch_begin, tuple(self._calls), complete))
        return self._elapsed(self.now()) >= self.limits.seconds and self._count >= self.limits.calls

    def _elapsed(self, now: int) -> float:
        return (now - (now if self._begun is None else self._begun)) / 1e9


@attrs.define(eq=False)
class FitLoop:
    """Keras' own `fit` with the workload's callbacks, stopped when enough was seen.

    Epochs and batches begin and end for the callbacks as in a training, except that no epoch and
    no training ends: what saves, restores or stops does so there, and nothing here is a training.
    """

    built: Built
    watch: Watch
    sync: Callable[[], None] | None = None
    shapes: list[str] = attrs.field(factory=list)
    _recorder: Recorder | None = None

    def __attrs_post_init__(self) -> None:
        model = self.built.model
        step = model.train_step

        def train_step(data: Any, *args: Any, **kwargs: Any) -> Any:
            self.shapes.append(shapes_in_words(data))  # this runs only while it is traced
            return step(data, *args, **kwargs)

        if not model.run_eagerly:
            model.train_step = train_step
        self.watch.install()
        inner = model.train_function

        def train_function(iterator: Any) -> Any:
            traces = self.watch.clock.traces
            result = inner(iterator)
            assert self._recorder is not None
            if self._recorder.called(traced=self.watch.clock.traces != traces):
                model.stop_training = True
            return result

        model.train_function = train_function

    def run(self, data: Any, limits: Limits) -> list[TimedEpoch]:
        """Train on the data until the limits are reached."""
        import tensorflow as tf

        model, run = self.built.model, self.built.run
        recorder = Recorder(
            limits, run.steps_per_epoch, self.built.training.steps_per_execution, self.sync
        )
        self._recorder = recorder
        shuffle = self.built.workload.shuffle and not isinstance(data, tf.data.Dataset)
        model.fit(
            data,
            # one epoch more than any limit lets begin
            epochs=10**6,
            class_weight=self.built.workload.class_weight,
            callbacks=_recording_callbacks(self.built, recorder),
            shuffle=shuffle,
            verbose=0,
        )
        return recorder.epochs

    def finish(self) -> None:
        """Leave the model as Keras made it."""
        self.watch.uninstall()


def _recording_callbacks(built: Built, recorder: Recorder) -> Any:
    import keras

    model = built.model

    class Recording(keras.callbacks.CallbackList):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            recorder.begin_epoch()
            super().on_epoch_begin(epoch, logs)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if recorder.end_epoch(complete=not model.stop_training):
                model.stop_training = True

        def on_train_end(self, logs: Any = None) -> None:
            pass

    return Recording(
        list(built.training.callbacks), add_history=True, model=model, verbose=0,
        epochs=built.run.epochs, steps=built.run.steps_per_epoch,
    )  # fmt: skip


def first_batch(built: Built) -> Any:
    """A batch of the training data as tensors, the first that is as large as it may be."""
    import tensorflow as tf

    data = built.run.datasets["train"]
    batch = next(iter(data)) if isinstance(data, tf.data.Dataset) else data[0]
    return tf.nest.map_structure(
        lambda part: part if isinstance(part, tf.RaggedTensor | tf.SparseTensor)
        else tf.convert_to_tensor(part),
        batch,
    )  # fmt: skip


def repeated(batch: Any, element_spec: Any, steps: int | None) -> Any:
    """A data set of epochs that hold nothing but this batch, shaped as the training data are.

    :param element_spec: the shapes that the train function is traced for, None for the batch's.
    :param steps: of an epoch, None for one without end.
    """
    import tensorflow as tf

    data = tf.data.Dataset.from_tensors(batch)
    if element_spec is not None:

        def as_declared(*elements: Any) -> Any:
            parts = elements if isinstance(batch, tuple) else elements[0]
            return tf.nest.map_structure(_declared, parts, element_spec)

        # the cache keeps what the map would do again for each step
        data = data.map(as_declared).cache()
    data = data.repeat()
    return data if steps is None else data.take(steps)


def _declared(tensor: Any, spec: Any) -> Any:
    """The tensor with no more of its shape known than the specification says."""
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec):
        return tensor
    return tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=spec.shape)


@attrs.define(eq=False)
class GraphLoop:
    """The train step again and again in one graph, over one batch: no Python, no input.

    :param call_steps: how many steps one call makes.
    """

    built: Built
    batch: Any
    sync: Callable[[], None] | None = None
    now: Clock = perf_counter_ns
    call_steps: int = 1
    _function: Any = None

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        model, batch = self.built.model, self.batch
        # as Keras' own: compiled by XLA where a step is, once and not for each call
        step = tf.function(model.train_step, jit_compile=model.jit_compile, reduce_retracing=True)

        def loop(count: Any) -> Any:
            # what Keras hands back after each step is computed in each step, so it is carried
            _, logs = tf.while_loop(
                lambda done, _: done < count,
                lambda done, _: (done + 1, step(batch)),
                (tf.constant(1), step(batch)),
                parallel_iterations=1,
            )
            return logs

        self._function = tf.function(loop, autograph=False)

    def warm(self) -> None:
        """Trace, and choose how many steps a call makes.

        :raises Exception: whatever the step raises in a graph of its own.
        """
        self._timed(2)
        seconds = min(self._timed(2), self._timed(2)) / 2
        self.call_steps = max(1, min(2000, round(GRAPH_CALL_SECONDS / max(seconds, 1e-9))))

    def run(self, limits: Limits) -> list[float]:
        """Seconds of a step, one figure for each call."""
        seconds: list[float] = []
        begin = self.now()
        while len(seconds) < limits.calls or (self.now() - begin) / 1e9 < limits.seconds:
            seconds.append(self._timed(self.call_steps) / self.call_steps)
        return seconds

    def _timed(self, steps: int) -> float:
        import tensorflow as tf

        count = tf.constant(steps)
        begin = self.now()
        self._function(count)
        if self.sync is not None:
            self.sync()
        return (self.now() - begin) / 1e9


@attrs.define(eq=False)
class DataLoop:
    """Batches read and not used. In a graph, where a batch costs no Python; a PyDataset is Python.

    :param steps_per_epoch: None where unknown.
    """

    data: Any
    steps_per_epoch: int | None
    now: Clock = perf_counter_ns
    _function: Any = None

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        def read(iterator: Any, count: Any) -> Any:
            """As many batches as there are, at most `count`; how many there were."""

            def following(read: Any) -> Any:
                # after the last one nothing is asked for: it would be read and be lost
                return tf.cond(
                    read < count,
                    iterator.get_next_as_optional,
                    lambda: tf.experimental.Optional.empty(iterator.element_spec),
                )

            read, _ = tf.while_loop(
                lambda _, batch: batch.has_value(),
                lambda read, _: (read + 1, following(read + 1)),
                (tf.constant(0), following(tf.constant(0))),
                parallel_iterations=1,
            )
            return read

        self._function = tf.function(read, autograph=False, reduce_retracing=True)

    def run(self, limits: Limits) -> list[TimedEpoch]:
        """Read until the limits are reached."""
        recorder = Recorder(limits, None, now=self.now)
        stop = False
        while not stop:
            recorder.begin_epoch()
            left = False
            for steps in self._calls(limits):
                recorder.steps_per_call = steps
                left = recorder.called()
                if left:
                    break
            stop = recorder.end_epoch(complete=not left) or left
        return recorder.epochs

    def _calls(self, limits: Limits) -> Iterator[int]:
        """Read an epoch; yields after each call how many batches it read."""
        import tensorflow as tf

        if not isinstance(self.data, tf.data.Dataset):
            for index in range(self.data.num_batches):
                self.data[index]
                yield 1
            self.data.on_epoch_end()
            return
        iterator, count = iter(self.data), 1
        while True:
            begin = self.now()
            read = int(self._function(iterator, tf.constant(count)))
            if read:
                yield read
            if read < count:
                return
            if (self.now() - begin) / 1e9 < DATA_CALL_SECONDS:
                count *= 2


def shapes_of(data: Any, seconds: float, now: Clock = perf_counter_ns) -> dict[str, int]:
    """The shapes of the batches that can be read in so many seconds, and how often each came."""
    found: dict[str, int] = {}
    begin = now()
    for batch in _batches(data):
        words = shapes_in_words(batch)
        found[words] = found.get(words, 0) + 1
        if (now() - begin) / 1e9 > seconds:
            break
    return found


def _batches(data: Any) -> Iterator[Any]:
    import tensorflow as tf

    if isinstance(data, tf.data.Dataset):
        yield from data
        return
    for index in range(data.num_batches):
        yield data[index]
    data.on_epoch_end()


def shapes_in_words(batch: Any) -> str:
    """`(32, 28, 28, 1), (32,)`: the shapes of a batch's parts."""
    import tensorflow as tf

    shapes = []
    for part in tf.nest.flatten(batch):
        shape = getattr(part, "shape", ())
        sizes = ", ".join("?" if size is None else str(size) for size in shape)
        shapes.append(f"({sizes}{',' if len(shape) == 1 else ''})")
    return ", ".join(shapes)
