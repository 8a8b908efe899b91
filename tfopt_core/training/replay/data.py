"""Read the training data of a replay: two epochs are digested, and the first batches kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower_plan
from tfopt_core.records.replay import ReadEpoch
from tfopt_core.training.replay.digests import FIRST_BATCHES, read_epoch

# A cache that froze random data shows only in a second epoch.
EPOCHS = 2
# Reading an epoch ends after so long; the other side has more time for the same data.
EPOCH_SECONDS = 10.0
PATIENCE = 6.0
KEPT_BYTES = 512 * 2**20

Clock = Callable[[], float]


@attrs.frozen
class ReplayData:
    """The data that were read: the epochs' digests, why they are incomplete, the first batches.

    There are no digests of a PyDataset that Keras reads itself on the other side.
    """

    epochs: tuple[ReadEpoch, ...]
    unread: str | None
    batches: Any


def read_first(plan: DataPlan, now: Clock = monotonic) -> ReplayData:
    """Read the first side's data and return them with the first batches as a `tf.data.Dataset`.

    :param plan: the plan to read, of batches. Of a PyDataset they are read in their own order,
        which Keras may draw anew.
    """
    first, dataset = _FirstBatches(), lower_plan(plan)
    epochs = _epochs(dataset, EPOCH_SECONDS, first, now)
    return ReplayData(epochs, _unread(epochs), first.dataset(dataset))


def read_other(plan: DataPlan, first_source: Any, go_on: Callable[[Any], None] = lambda data: None,
               now: Clock = monotonic) -> ReplayData:  # fmt: skip
    """Read the other side's data, of the same workload as the first side's, and return them.

    :param first_source: the first side's source.
    :param go_on: called with the data set before it is read.
    """
    if _untouched_pydataset(plan) and plan.source.value is first_source.value:
        return ReplayData((), None, None)
    dataset = lower_plan(plan)
    go_on(dataset)
    epochs = _epochs(dataset, PATIENCE * EPOCH_SECONDS, _forget, now)
    return ReplayData(epochs, _unread(epochs), None)


def _untouched_pydataset(plan: DataPlan) -> bool:
    return plan.source.origin == "pydataset" and len(plan.stages) == 1


def _unread(epochs: tuple[ReadEpoch, ...]) -> str | None:
    return None if epochs[-1].whole else "the data are too large to compare whole"


def _epochs(
    dataset: Any, seconds: float, keep: Callable[[Any], None], now: Clock
) -> tuple[ReadEpoch, ...]:
    """Read two epochs, each within `seconds`. Return their digests; of a longer epoch a part."""
    epochs: list[ReadEpoch] = []
    for _ in range(EPOCHS):
        end = now() + seconds
        epochs.append(read_epoch(dataset, keep=keep, out_of_time=partial(_passed, end, now)))
        if not epochs[-1].whole:
            break
        keep = _forget
    return tuple(epochs)


def _passed(end: float, now: Clock) -> bool:
    return now() > end


def _forget(batch: Any) -> None:
    """Ignore a batch."""


class _FirstBatches:
    """The first batches, as many as fit into the limit, and one at least."""

    def __init__(self) -> None:
        self._batches: list[Any] = []
        self._bytes = 0

    def __call__(self, batch: Any) -> None:
        if len(self._batches) < FIRST_BATCHES and self._bytes < KEPT_BYTES:
            self._batches.append(batch)
            self._bytes += _size(batch)

    def dataset(self, like: Any) -> Any:
        """Return the batches as a data set of the same structure."""
        import tensorflow as tf

        batches = self._batches
        dataset = tf.data.Dataset.from_generator(
            lambda: iter(batches), output_signature=like.element_spec
        )
        return dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))


def _size(batch: Any) -> int:
    import numpy as np
    import tensorflow as tf

    total = 0
    for part in tf.nest.flatten(batch, expand_composites=True):
        if part is not None:
            array = np.asarray(part.numpy())
            texts = array.dtype.hasobject
            total += sum(len(text) for text in np.ravel(array)) if texts else array.nbytes
    return total
