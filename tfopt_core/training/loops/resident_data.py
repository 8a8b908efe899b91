"""What a loop over resident data reads: examples on the device, and their order in each pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, MapBatches, Resident, Shuffle, Source, Stage
from tfopt_core.data.batching import KerasShuffle
from tfopt_core.data.lower import given_spec, lower_stages
from tfopt_core.data.resident import why_not_gathered
from tfopt_core.lazy import tf

# Indices are int32: a gather by int64 is slower on a CPU, and no device holds more examples.
_MOST_EXAMPLES = 2**31 - 1


@attrs.frozen(eq=False)
class ResidentData:
    """The examples that the device holds, and how each epoch batches them.

    :param rows: `DeviceRows` of the examples.
    :param index: the type of the indices of examples.
    :param known: the size of a batch where the shapes of the stock pipeline tell it, else None: the
        graph would be optimized differently, and round differently.
    :param passes: returns a data set of the orders of Keras' own shuffle, as `KerasShuffle` has it;
        None for other shuffles.
    """

    rows: Any
    index: Any
    known: int | None
    count: int
    batch: Batch
    maps: tuple[MapBatches, ...]
    orders: EpochOrders
    passes: Callable[[], Any] | None = None

    @property
    def full_batches(self) -> int:
        """The number of full batches in an epoch."""
        return self.count // self.batch.size

    @property
    def batches(self) -> int:
        """The number of all batches in an epoch."""
        left = self.count % self.batch.size
        return self.full_batches + (left > 0 and not self.batch.drop_remainder)


def resident_data(
    plan: DataPlan, lowered: Any, drawn: Callable[[], int] | None = None
) -> ResidentData:
    """Return what a lowered plan holds on the device, for which `why_not_resident` is empty.

    :param drawn: see `EpochOrders`.
    """
    resident, behind = _split(plan)
    assert resident is not None
    held, batch = resident.held, next(stage for stage in behind if isinstance(stage, Batch))
    assert held.count is not None
    whole = batch.drop_remainder or held.count % batch.size == 0
    if plan.given and not batch.drop_remainder:
        whole = tf.nest.flatten(given_spec(plan))[0].shape[0] == batch.size
    shuffles = shuffles_as_lowered(behind, lowered)
    return ResidentData(
        rows=held.rows,
        # an epoch's order of int32 would lie in the memory of the machine, and be copied each step
        index=tf.int64 if held.on_gpu else tf.int32,
        known=batch.size if whole else None,
        count=held.count,
        batch=batch,
        maps=tuple(stage for stage in behind if isinstance(stage, MapBatches)),
        orders=EpochOrders(held.count, shuffles, drawn),
        passes=next((s.passes for s in behind if isinstance(s, KerasShuffle)), None),
    )


def why_not_resident(plan: DataPlan) -> str:
    """Return why batches cannot be gathered from what this plan holds; empty if they can."""
    resident, behind = _split(plan)
    if resident is None:
        return "the training data are not held on the device"
    if resident.held.count is not None and resident.held.count > _MOST_EXAMPLES:
        return f"{resident.held.count:,} examples are more than {_MOST_EXAMPLES:,}"
    return why_not_gathered(behind)


def _split(plan: DataPlan) -> tuple[Resident | None, tuple[Stage, ...]]:
    stages = plan.lowering_order()
    place = next((i for i, stage in enumerate(stages) if isinstance(stage, Resident)), None)
    if place is None:
        return None, ()
    resident = stages[place]
    assert isinstance(resident, Resident)
    return resident, stages[place + 1 :]


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
    _seen: int = 0
    _stride: int = 2
    _orders: Any = None

    def next_epoch(self) -> Any:
        """Return the indices of all examples, int32, in the order of the pass that begins."""
        if not self.shuffles:
            return tf.range(self.count)
        expected = 0 if self._last is None else self._last + self._stride
        drawn = 0 if self.drawn is None else self.drawn()
        # while steps are timed, nobody makes iterators
        place = expected if drawn == self._seen else drawn - 1
        self._seen = drawn
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
