"""What a resumed training restores besides variables: random states and the data's order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfopt_core.data.dissect import walk
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.loops.train_functions import reads_before_fit

# Ops whose next value depends on how often they ran: TensorFlow's runtime holds their state, and
# nothing can read it.
_UNREADABLE = (
    "Multinomial", "ParameterizedTruncatedNormal", "RandomCrop", "RandomGamma", "RandomPoissonV2",
    "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
    "SampleDistortedBoundingBoxV2", "TruncatedNormal",
)  # fmt: skip


def capture_random() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and Keras' global generators, as JSON values."""
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    generator = _keras_generator()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), place, has_gauss, cached],
        "keras": None if generator is None else np.asarray(generator.state).tolist(),
    }


def restore_random(state: Mapping[str, Any]) -> None:
    """Restore the generators, Keras' own only if it was in use."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, place, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), place, has_gauss, cached))
    if state["keras"] is not None and not why_without("keras-random-state"):
        from keras.src.random.seed_generator import global_seed_generator

        global_seed_generator().state.assign(np.array(state["keras"]))


def unreadable_ops(graph: Any) -> tuple[str, ...]:
    """Return the ops of a graph, and of all functions it calls, whose state cannot be saved."""
    from tfopt_core.data.functions import all_ops

    return tuple(sorted(_named(all_ops(graph))))


def _named(ops: Iterable[str]) -> set[str]:
    return {op for op in ops if op in _UNREADABLE or op.startswith("Stateful")} - {
        "StatefulPartitionedCall", "StatefulIf", "StatefulWhile",
    }  # fmt: skip


def _keras_generator() -> Any:
    """Return Keras' global seed generator; None if it is unused so far, or not accessible."""
    if why_without("keras-random-state"):
        return None
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("global_seed_generator")


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
    read = walk.passes_to_read(data)
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
        if walk.known_cardinality(data) is not None:
            iter(data)  # made at the epoch's end, and never read


def remembers_epochs(data: Any) -> bool:
    """Return whether the data are a PyDataset with its own `on_epoch_end`."""
    import keras

    kind = keras.utils.PyDataset
    return isinstance(data, kind) and type(data).on_epoch_end is not kind.on_epoch_end
