"""Bringing the data to where a stopped training had them.

A reshuffling shuffle of tf.data draws its seeds when an iterator is *made*, so a training that
goes on first makes as many iterators as Keras had made, and reads nothing from them unless a
shuffle stands where it draws while it is read. Within an epoch the batches that were trained on
are read once more, and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.data import dissect
from tfopt_core.training.build import Built
from tfopt_core.training.loops.train_functions import reads_before_fit


def make_iterators(built: Built, epochs: int) -> None:
    """Make the iterators over all data that so many epochs of `fit` make.

    Keras makes one for each epoch, and where it knows how many batches there are one more at the
    epoch's end, which the next epoch replaces unread; the same for each validation. Under a
    distribution strategy of its own it also takes a batch before each validation (and before
    each `fit`, which it does again).
    """
    import tensorflow as tf

    takes_a_batch = reads_before_fit(built.model)
    cluster = built.run.cluster
    elsewhere = cluster is not None and cluster.coordinated  # workers read the training data
    for split, data in built.run.datasets.items():
        if isinstance(data, tf.data.Dataset) and not (elsewhere and split == "train"):
            _pass_over(data, epochs, takes_a_batch and split == "validation")


def _pass_over(data: Any, epochs: int, takes_a_batch: bool) -> None:
    """What Keras does with a data set in so many epochs, as far as it moves a shuffle's seeds."""
    read = dissect.passes_to_read(data)
    for epoch in range(epochs):
        if takes_a_batch:
            first = iter(data)
            if read != "none":
                next(first, None)
        batches = iter(data)
        if read == "every" or (read == "first" and epoch == 0):
            # to the end, since Keras' prefetching reads ahead to it: only then a cache is filled
            for _ in batches:
                pass
        if dissect.known_cardinality(data) is not None:
            iter(data)  # made at the epoch's end, and never read


def remembers_epochs(data: Any) -> bool:
    """Whether the data are a PyDataset that does something at an epoch's end."""
    import keras

    kind = keras.utils.PyDataset
    return isinstance(data, kind) and type(data).on_epoch_end is not kind.on_epoch_end


def epochs_drawn(built: Built, epochs: int) -> int:
    """How many iterators over the training data so many epochs make."""
    return epochs * (2 if built.run.steps_per_epoch is not None else 1)


def without_steps_done(
    train_function: Callable[[Any], Any],
    *,
    steps: int,
    steps_per_call: int,
    reads: bool,
    logs: Callable[[], Any],
    skipped: Callable[[], None],
    goes_on: Callable[[], None],
) -> Callable[[Any], Any]:
    """A train function that makes no step in the first calls: those were made before the stop.

    Keras calls it for each of them all the same, and so counts right.

    :param steps: how many steps of the epoch were made.
    :param steps_per_call: how many `fit` counts a call.
    :param reads: whether the batches come from the iterator that it is called with.
    :param logs: what such a call returns.
    :param skipped: called once all batches were read.
    :param goes_on: called just before the first step that is made.
    """
    left = -(-steps // steps_per_call)
    answer: Any = None

    def function(iterator: Any) -> Any:
        nonlocal left, answer
        if not left:
            if answer is not None:
                answer = None
                goes_on()
            return train_function(iterator)
        if answer is None:
            if reads:
                _read(iterator, steps)
            skipped()
            answer = logs()
        left -= 1
        return answer

    return function


def _read(iterator: Any, batches: int) -> None:
    import tensorflow as tf

    for _ in range(batches):
        try:
            next(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            return  # a last call of fewer batches was counted in full
