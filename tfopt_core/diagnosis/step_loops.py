"""The loops that a diagnosis times: Keras' `fit`, the step alone in a graph, and the data alone.

`tfopt_core/diagnosis/step_parts.py` computes the parts of a step from their times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.diagnosis.step_parts import Clock, Recorder, RecordingLimits, TimedEpoch
from tfopt_core.records.run import StepTrace
from tfopt_core.training.build import Built
from tfopt_core.training.input.sources import weighed
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.training.timed_function import TimedFunction

# How long a call of a graph loop, or of one that reads batches, takes: long enough for the clock,
# short enough to be repeated.
GRAPH_CALL_SECONDS, DATA_CALL_SECONDS = 0.15, 0.05


def first_batch(built: Built) -> Any:
    """Return the first batch of the training data, as tensors."""
    import tensorflow as tf

    data = built.run.datasets["train"]
    batch = next(iter(data)) if isinstance(data, tf.data.Dataset) else data[0]
    return tf.nest.map_structure(
        lambda part: part if isinstance(part, tf.RaggedTensor | tf.SparseTensor)
        else tf.convert_to_tensor(part),
        batch,
    )  # fmt: skip


def repeated(batch: Any, element_spec: Any, steps: int | None) -> Any:
    """Return a data set that repeats this batch, with the shapes of the training data.

    :param element_spec: the shapes that the train function is traced for, None for the batch's.
    :param steps: the steps of an epoch, None for an epoch without end.
    """
    import tensorflow as tf

    data = tf.data.Dataset.from_tensors(batch)
    if element_spec is not None:

        def as_declared(*elements: Any) -> Any:
            parts = elements if isinstance(batch, tuple) else elements[0]
            return tf.nest.map_structure(_declared, parts, element_spec)

        # without the cache the map would run for each step
        data = data.map(as_declared).cache()
    data = data.repeat()
    return data if steps is None else data.take(steps)


def _declared(tensor: Any, spec: Any) -> Any:
    """Return the tensor with its static shape reduced to that of the specification."""
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec):
        return tensor
    return tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=spec.shape)


@attrs.define(eq=False)
class FitLoop:
    """Keras' own `fit` with the workload's callbacks, stopped once the limits are reached.

    Callbacks are called as in a training, but not at the end of epochs and of the training: there
    they save, restore or stop, and this is no training.
    """

    built: Built
    timed: TimedFunction
    sync: Callable[[], None] | None = None
    _recorder: Recorder | None = None

    def __attrs_post_init__(self) -> None:
        model = self.built.model
        self.timed.install()
        inner = model.train_function

        def train_function(iterator: Any) -> Any:
            traces = self.timed.clock.traces
            result = inner(iterator)
            assert self._recorder is not None
            if self._recorder.called(traced=self.timed.clock.traces != traces):
                model.stop_training = True
            return result

        model.train_function = train_function

    @property
    def traces(self) -> list[StepTrace]:
        """The traces of the step so far."""
        return self.timed.clock.step_traces

    def run(self, data: Any, limits: RecordingLimits) -> list[TimedEpoch]:
        """Train on the data until the limits are reached. Return the timed epochs."""
        import tensorflow as tf

        model, run = self.built.model, self.built.run
        recorder = Recorder(limits, run.steps_per_epoch, loop_of(self.built).steps, self.sync)
        self._recorder = recorder
        shuffle = self.built.workload.shuffle and not isinstance(data, tf.data.Dataset)
        data, class_weight = weighed(data, self.built.workload.class_weight)
        self.timed.begin_fit()
        model.fit(
            data,
            # more epochs than any limit allows
            epochs=10**6,
            class_weight=class_weight,
            callbacks=_recording_callbacks(self.built, recorder),
            shuffle=shuffle,
            verbose=0,
        )
        return recorder.epochs

    def finish(self) -> None:
        """Leave the model as Keras made it."""
        self.timed.uninstall()


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


@attrs.define(eq=False)
class GraphLoop:
    """The train step repeated in one graph over one batch, without Python and without input.

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
        # compiled by XLA if Keras compiles the step, once and not for each call
        step = tf.function(model.train_step, jit_compile=model.jit_compile, reduce_retracing=True)

        def loop(count: Any) -> Any:
            # the logs are carried out of the loop, so that each step computes them as in Keras
            _, logs = tf.while_loop(
                lambda done, _: done < count,
                lambda done, _: (done + 1, step(batch)),
                (tf.constant(1), step(batch)),
                parallel_iterations=1,
            )
            return logs

        self._function = tf.function(loop, autograph=False)

    def warm(self) -> None:
        """StepTrace, and choose how many steps a call makes.

        :raises Exception: whatever the step raises when it is traced.
        """
        self._timed(1)
        seconds = self._timed(1)
        if seconds < GRAPH_CALL_SECONDS:  # long enough for the clock otherwise
            seconds = min(self._timed(2), self._timed(2)) / 2
        self.call_steps = max(1, min(2000, round(GRAPH_CALL_SECONDS / max(seconds, 1e-9))))

    def run(self, limits: RecordingLimits) -> list[float]:
        """Return the seconds of a step, one figure for each call."""
        seconds: list[float] = []
        begin = self.now()
        while not limits.enough(len(seconds), elapsed := (self.now() - begin) / 1e9) or (
            elapsed < limits.seconds
        ):
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
    """Reads batches without using them, in a graph unless the data are a PyDataset.

    :param steps_per_epoch: None if unknown.
    """

    data: Any
    steps_per_epoch: int | None
    now: Clock = perf_counter_ns
    _function: Any = None

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        def read(iterator: Any, count: Any) -> Any:
            """Read up to `count` batches and return how many there were."""

            def following(read: Any) -> Any:
                # do not fetch after the last batch: the element would be lost
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

    def run(self, limits: RecordingLimits) -> list[TimedEpoch]:
        """Read until the limits are reached. Return the timed epochs."""
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

    def _calls(self, limits: RecordingLimits) -> Iterator[int]:
        """Read an epoch, yielding the number of batches after each call."""
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
