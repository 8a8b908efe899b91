"""The loops that a diagnosis times: Keras' `fit`, the step alone in a graph, and the data alone.

`tfopt_core/diagnosis/step_parts.py` computes the parts of a step from their times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.diagnosis.step_parts import RecordingLimits, TimedEpoch
from tfopt_core.lazy import keras, tf
from tfopt_core.training.build import Built
from tfopt_core.training.input.sources import weighed
from tfopt_core.training.messages import Block, StepTrace
from tfopt_core.training.runtime import device_sync
from tfopt_core.training.timed_function import TimedFunction

# How long a call of a graph loop, or of one that reads batches, takes: long enough for the clock,
# short enough to be repeated.
GRAPH_CALL_SECONDS, DATA_CALL_SECONDS = 0.15, 0.05


def first_batch(built: Built) -> Any:
    """Return the first batch of the training data, as tensors."""
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
    data = tf.data.Dataset.from_tensors(batch)
    if element_spec is not None:

        def as_declared(*elements: Any) -> Any:
            parts = elements if isinstance(batch, tuple) else elements[0]
            return tf.nest.map_structure(_declared, parts, element_spec)

        # without the cache the map would run for each step
        data = data.map(as_declared).cache()
    data = data.repeat()
    options = tf.data.Options()
    # an epoch that ends may wait for the thread that tunes: as dispatch that would hide the input
    options.autotune.enabled = False
    return (data if steps is None else data.take(steps)).with_options(options)


def _declared(tensor: Any, spec: Any) -> Any:
    """Return the tensor with its static shape reduced to that of the specification."""
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
    timed: TimedFunction = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.timed = TimedFunction(self.built)
        self.timed.install()

    @property
    def traces(self) -> list[StepTrace]:
        """The traces of the step so far."""
        return self.timed.clock.step_traces

    def run(self, data: Any, limits: RecordingLimits) -> list[TimedEpoch]:
        """Train on the data until the limits are reached. Return the timed epochs."""
        workload, epochs = self.built.workload, list[TimedEpoch]()
        shuffle = workload.shuffle and not isinstance(data, tf.data.Dataset)
        data, class_weight = weighed(data, workload.class_weight)
        callbacks = self._recording(epochs, limits)
        self.timed.begin_fit()
        self.built.model.fit(
            data,
            # more epochs than any limit allows
            epochs=10**6,
            class_weight=class_weight,
            callbacks=callbacks,
            shuffle=shuffle,
            verbose=0,
        )
        return epochs

    def _recording(self, epochs: list[TimedEpoch], limits: RecordingLimits) -> Any:
        """Return the workload's callbacks, with the clock and the limits around them."""
        run, model, clock = self.built.run, self.built.model, self.timed.clock
        before, begun, calls = len(clock.blocks), len(clock.epoch_begins), 0

        def stop_after(most: float) -> None:
            seconds = (clock.now() - clock.epoch_begins[begun]) / 1e9
            traced = sum(block.cold == "trace" for block in clock.blocks[before:])
            if limits.are_over(most, calls, seconds, traced):
                model.stop_training = True

        def on_call(epoch: int, done: int) -> None:
            nonlocal calls
            calls += 1
            stop_after(limits.at_most)

        class Recording(keras.callbacks.CallbackList):  # type: ignore[misc]
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.known = len(clock.blocks)
                clock.on_epoch_begin(epoch)
                super().on_epoch_begin(epoch, logs)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                clock.end_steps()
                blocks = tuple(clock.blocks[self.known :])
                epochs.append(TimedEpoch(blocks, complete=not model.stop_training))
                stop_after(limits.seconds)

            def on_train_end(self, logs: Any = None) -> None:
                pass

        clock.on_call = on_call
        return Recording(
            list(self.built.training.callbacks), add_history=True, model=model, verbose=0,
            epochs=run.epochs, steps=run.steps_per_epoch,
        )  # fmt: skip

    def finish(self) -> None:
        """Leave the model as Keras made it."""
        self.timed.uninstall()


@attrs.define(eq=False)
class GraphLoop:
    """The train step repeated in one graph over one batch, without Python and without input.

    :param call_steps: how many steps one call makes.
    """

    built: Built
    batch: Any
    call_steps: int = 1
    _function: Any = None
    _sync: Any = None

    def __attrs_post_init__(self) -> None:
        model, batch = self.built.model, self.batch
        self._sync = device_sync(self.built.run.machine)
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
        """Trace, and choose how many steps a call makes.

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
        begin = perf_counter_ns()
        while not limits.are_over(limits.seconds, len(seconds), _since(begin)):
            seconds.append(self._timed(self.call_steps) / self.call_steps)
        return seconds

    def _timed(self, steps: int) -> float:
        return call_seconds(self._function, self._sync, steps)


def call_seconds(function: Any, sync: Callable[[], None] | None, count: int) -> float:
    """Return what a function of a number of repetitions takes.

    :param sync: waits for the device; None on a CPU.
    """
    number = tf.constant(count)
    begin = perf_counter_ns()
    function(number)
    if sync is not None:
        sync()
    return _since(begin)


@attrs.define(eq=False)
class DataLoop:
    """Reads batches without using them, in a graph unless the data are a PyDataset."""

    data: Any
    _function: Any = None

    def __attrs_post_init__(self) -> None:
        def read(iterator: Any, count: Any) -> Any:
            """Read up to `count` batches and return how many there were."""
            done = 0
            while done < count:  # AutoGraph makes a loop of it
                if not iterator.get_next_as_optional().has_value():
                    break
                done += 1
            return done

        self._function = tf.function(read, reduce_retracing=True)

    def run(self, limits: RecordingLimits) -> list[TimedEpoch]:
        """Read until the limits are reached. Return the timed epochs."""
        epochs: list[TimedEpoch] = []
        begun, calls, left = perf_counter_ns(), 0, False
        while not left and not limits.are_over(limits.seconds, calls, _since(begun)):
            blocks: list[Block] = []
            start = perf_counter_ns()
            for steps in self._calls():
                blocks.append(Block(steps, _since(start)))
                start, calls = perf_counter_ns(), calls + 1
                left = limits.are_over(limits.at_most, calls, _since(begun))
                if left:
                    break
            epochs.append(TimedEpoch(tuple(blocks), complete=not left))
        return epochs

    def _calls(self) -> Iterator[int]:
        """Read an epoch, yielding the number of batches after each call."""
        if not isinstance(self.data, tf.data.Dataset):
            for index in range(self.data.num_batches):
                self.data[index]
                yield 1
            self.data.on_epoch_end()
            return
        iterator, count = iter(self.data), 1
        while True:
            begin = perf_counter_ns()
            read = int(self._function(iterator, tf.constant(count)))
            if read:
                yield read
            if read < count:
                return
            if _since(begin) < DATA_CALL_SECONDS:
                count *= 2


def _since(begin: int) -> float:
    """Return the seconds since a reading of the clock in nanoseconds."""
    return (perf_counter_ns() - begin) / 1e9
