"""Compute the order of a pass over the examples as tf.data would shuffle them, moving none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Shuffle, Source
from tfopt_core.data.lower import lower_stages


@attrs.define(eq=False)
class EpochOrders:
    """The permutations of successive passes, equal to those of a data set shuffled likewise.

    tf.data draws the seeds of a pass when its iterator is *made*, and Keras makes more iterators
    than it reads: where it knows the number of batches, one at the end of each pass, which the next
    one replaces. The order of the pass that comes next is computed ahead, as if it came after as
    many iterators as the last one.

    :param count: the number of examples.
    :param shuffles: the shuffles between the examples and their batches.
    :param drawn: returns how many iterators were made so far, that of the pass that begins too;
        None, or 0 where a strategy makes them unseen, to take two for a pass.
    """

    count: int
    shuffles: tuple[Shuffle, ...]
    drawn: Callable[[], int] | None = None
    _last: int | None = None
    _stride: int = 2
    _orders: Any = None

    def next_epoch(self) -> Any:
        """Return the indices of all examples, int32, in the order of the pass that begins."""
        import tensorflow as tf

        if not self.shuffles:
            return tf.range(self.count)
        expected = 0 if self._last is None else self._last + self._stride
        drawn = 0 if self.drawn is None else self.drawn()
        place = drawn - 1 if drawn else expected
        if self._orders is None or place != expected:
            if self._last is not None:
                self._stride = max(1, place - self._last)
            self._orders = iter(_orders(self.count, self.shuffles, place, self._stride))
        self._last = place
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


def _orders(count: int, shuffles: Sequence[Shuffle], skipped: int, stride: int) -> Any:
    """Return a data set of the orders of all passes, computed one ahead in the background.

    One iterator yields them all, since making an iterator takes as long as many small steps.

    :param skipped: how many iterators have been made before.
    :param stride: how many are made for each pass; the first of them is read.
    """
    import tensorflow as tf

    source = Source(value=(0, count, 1), origin="range", count=count)
    indices = lower_stages((source, *shuffles))
    used = indices.batch(count).map(lambda order: tf.cast(order, tf.int32))
    # makes an iterator over the shuffle, which draws its seeds, and takes nothing from it
    empty = tf.data.Dataset.range(0)
    unread = tf.data.Dataset.zip((empty, used)).map(lambda _, order: order)
    orders = used
    for _ in range(stride - 1):
        orders = orders.concatenate(unread)
    orders = orders.repeat()
    if skipped:
        # (repeat would make one iterator more, and nesting this many data sets would take seconds)
        orders = tf.data.Dataset.range(skipped).flat_map(lambda _: unread).concatenate(orders)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return orders.prefetch(1).with_options(options)
