"""In which order an epoch's examples come: as tf.data would shuffle them, without moving them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Shuffle, Source
from tfopt_core.data.lower import lower_stages


@attrs.define(eq=False)
class EpochOrders:
    """The permutations of successive epochs, equal to those of a data set shuffled likewise.

    tf.data draws an epoch's seeds when an iterator is *made*, and Keras makes two an epoch: one
    that it reads, and one more when the epoch has ended, which the next epoch replaces unread.
    Under a distribution strategy it also takes a batch before each `fit`. So does this.

    :param count: how many examples there are.
    :param shuffles: the stages between the examples and their batches.
    :param reads_before_fit: whether Keras takes a batch before the first epoch of a `fit`.
    """

    count: int
    shuffles: tuple[Shuffle, ...]
    reads_before_fit: bool = False
    _indices: Any = None
    _orders: Any = None
    _ahead: Any = None

    def __attrs_post_init__(self) -> None:
        if self.shuffles:
            source = Source(value=(0, self.count, 1), origin="range", count=self.count)
            self._indices = lower_stages((source, *self.shuffles))
            self._orders = _whole(self._indices, self.count)

    def begin_fit(self) -> None:
        """A call of `fit` follows."""
        if self._orders is None or not self.reads_before_fit:
            return
        if self._ahead is None:
            iter(self._indices)
        # what was made for the next epoch stands for the batch that is taken
        self._ahead = None

    def next_epoch(self) -> Any:
        """The indices of all examples, int32, in the order of the next epoch."""
        import tensorflow as tf

        if self._orders is None:
            return tf.range(self.count)
        current = self._ahead or iter(self._orders)
        order = next(current)
        iter(self._indices)  # draws an epoch's seeds, and computes nothing
        self._ahead = iter(self._orders)  # in the background, while this epoch trains
        return order


def shuffles_as_lowered(stages: Sequence[Any], lowered: Any) -> tuple[Shuffle, ...]:
    """The shuffles among these stages with the seeds that the lowered data set has drawn.

    :param stages: those behind what is held.
    :param lowered: the data set that the plan of these stages was lowered to.
    """
    asked = tuple(stage for stage in stages if isinstance(stage, Shuffle))
    found = tuple(s for s in DataPlan.from_dataset(lowered).stages if isinstance(s, Shuffle))
    return found if len(found) == len(asked) else asked


def _whole(indices: Any, count: int) -> Any:
    """A data set of one element: all indices in order. Each iterator yields another order."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_warm_start = True  # an iterator begins when it is made, not when asked
    options.autotune.enabled = False
    as_int32 = indices.batch(count).map(lambda order: tf.cast(order, tf.int32))
    return as_int32.prefetch(1).with_options(options)
