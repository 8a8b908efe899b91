"""Compute the order of an epoch's examples as tf.data would shuffle them, without moving them."""

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
    that it reads, and one at the epoch's end, which the next epoch replaces unread. Under a
    distribution strategy it also takes a batch before each `fit`. This class draws likewise.

    :param count: the number of examples.
    :param shuffles: the shuffles between the examples and their batches.
    :param reads_before_fit: whether Keras takes a batch before the first epoch of a `fit`.
    """

    count: int
    shuffles: tuple[Shuffle, ...]
    reads_before_fit: bool = False
    _drawn: int = 0
    _orders: Any = None

    def begin_fit(self) -> None:
        """Prepare for a call of `fit`."""
        if self.reads_before_fit:
            self._drawn += 1
            self._orders = None

    def skip(self, iterators: int) -> None:
        """Skip the orders of iterators that were made before this training was resumed."""
        self._drawn += iterators
        self._orders = None

    def next_epoch(self) -> Any:
        """Return the indices of all examples, int32, in the order of the next epoch."""
        import tensorflow as tf

        if not self.shuffles:
            return tf.range(self.count)
        if self._orders is None:
            self._orders = iter(_orders(self.count, self.shuffles, skipped=self._drawn))
        self._drawn += 2
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


def _orders(count: int, shuffles: Sequence[Shuffle], skipped: int) -> Any:
    """Return a data set of the orders of all epochs, computed one ahead in the background.

    One iterator yields them all, since making an iterator takes as long as many small steps.

    :param skipped: how many iterators have been made before.
    """
    import tensorflow as tf

    source = Source(value=(0, count, 1), origin="range", count=count)
    indices = lower_stages((source, *shuffles))
    used = indices.batch(count).map(lambda order: tf.cast(order, tf.int32))
    # makes an iterator over the shuffle, which draws its seeds, and takes nothing from it
    empty = tf.data.Dataset.range(0)
    unread = tf.data.Dataset.zip((empty, used)).map(lambda _, order: order)
    orders = used.concatenate(unread).repeat()
    if skipped:
        # (repeat would make one iterator more, and nesting this many data sets would take seconds)
        orders = tf.data.Dataset.range(skipped).flat_map(lambda _: unread).concatenate(orders)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return orders.prefetch(1).with_options(options)
