"""Batches for a diagnosis: one batch repeated, all batches without a training."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.diagnosis.recorder import Clock, Recorder, RecordingLimits, TimedEpoch
from tfopt_core.training.build import Built

# A call reads batches for this long, which is long enough for the clock.
DATA_CALL_SECONDS = 0.05


def first_batch(built: Built, split: str = "train") -> Any:
    """Return the first batch of a split, as tensors."""
    import tensorflow as tf

    data = built.run.datasets[split]
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
