"""Restore the order of the data in a resumed training.

A reshuffling shuffle of tf.data draws its seeds when an iterator is *made*. So a resumed training
first makes as many iterators as Keras had made, and reads from them only if a shuffle draws seeds
while it is read.
"""

from __future__ import annotations

from typing import Any

from tfopt_core.data import dissect
from tfopt_core.training.build import Built
from tfopt_core.training.loops.train_functions import reads_before_fit


def make_iterators(built: Built, epochs: int) -> None:
    """Make the iterators over all data that `fit` makes in this many epochs.

    Keras makes one for each epoch. If it knows the number of batches, it makes another one at the
    epoch's end, which the next epoch replaces unread. The same holds for each validation. Under a
    distribution strategy, it also takes a batch before each validation (and before each `fit`,
    which it does again).
    """
    import tensorflow as tf

    takes_a_batch = reads_before_fit(built.model)
    cluster = built.run.cluster
    elsewhere = cluster is not None and cluster.coordinated  # workers read the training data
    for split, data in built.run.datasets.items():
        if isinstance(data, tf.data.Dataset) and not (elsewhere and split == "train"):
            pass_over(data, epochs, takes_a_batch and split == "validation")


def pass_over(data: Any, epochs: int, takes_a_batch: bool) -> None:
    """Make and read iterators as Keras does in this many epochs, as far as it moves seeds."""
    read = dissect.passes_to_read(data)
    for epoch in range(epochs):
        if takes_a_batch:
            first = iter(data)
            if read != "none":
                next(first, None)
        batches = iter(data)
        if read == "every" or (read == "first" and epoch == 0):
            # to the end, as Keras' prefetching does: only then is a cache filled
            for _ in batches:
                pass
        if dissect.known_cardinality(data) is not None:
            iter(data)  # made at the epoch's end, and never read


def remembers_epochs(data: Any) -> bool:
    """Return whether the data are a PyDataset with its own `on_epoch_end`."""
    import keras

    kind = keras.utils.PyDataset
    return isinstance(data, kind) and type(data).on_epoch_end is not kind.on_epoch_end
