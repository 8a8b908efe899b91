"""Stages that choose and order elements, and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from tfopt_core.data.stages.base import Count, Order, SameElements, Stage, Yields

# The shuffle buffer, in examples, if their number is unknown.
UNKNOWN_COUNT_BUFFER = 10_000
# A seed pair that has tf.data draw a new seed each time.
NEW_SEED = (0, 0)


@attrs.frozen(kw_only=True, eq=False)
class Shuffle(SameElements):
    """Shuffles through a buffer; `buffer_size` None means all elements if their number is known,
    else 10,000. A `seed` pair is what tf.data made of the global seed and the op's."""

    kind: ClassVar[str] = "shuffle"
    order: ClassVar[Order] = "shuffled"
    cheap: ClassVar[bool] = True
    buffer_size: int | None = None
    seed: int | tuple[int, int] | None = None
    reshuffle: bool = True
    deterministic: bool | None = attrs.field(init=False)

    @deterministic.default
    def _is_deterministic(self) -> bool:
        return not self.reshuffle and self.seed not in (None, NEW_SEED)

    @property
    def holds(self) -> int | None:
        return self.buffer_size

    def lower(self, dataset: Any) -> Any:
        from tfopt_core.data.dissect.rebuild import shuffled

        size = self.buffer_size
        if size is None:
            # elements are never counted, which may take as long as an epoch, or for ever
            count = int(dataset.cardinality())
            size = UNKNOWN_COUNT_BUFFER if count < 0 else max(1, count)
        if isinstance(self.seed, tuple):
            return shuffled(dataset, size, self.seed, self.reshuffle)
        return dataset.shuffle(size, seed=self.seed, reshuffle_each_iteration=self.reshuffle)

    def describe(self) -> str:
        buffer = "all examples" if self.buffer_size is None else f"buffer of {self.buffer_size:,}"
        return f"shuffle: {buffer}" + (", anew each epoch" if self.reshuffle else "")


@attrs.frozen(kw_only=True, eq=False)
class KerasShuffle(Shuffle):
    """The shuffle of arrays by Keras' own `fit`. Behind a stage that computes something else from
    the arrays it has an order of its own.

    `passes` returns a data set: each of its iterators yields the indices of the examples as one
    element, in Keras' own order.
    """

    kind: ClassVar[str] = "keras_shuffle"
    passes: Callable[[], Any] = attrs.field(repr=False)

    def describe(self) -> str:
        return f"{self.kind}: all examples, anew each epoch"

    def in_order(self, tensors: Any) -> Any:
        """Return the examples of these tensors in Keras' own order as a `tf.data.Dataset`."""
        import tensorflow as tf

        tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
        count = len(tf.nest.flatten(tensors)[0])
        indices = self.passes().flat_map(tf.data.Dataset.from_tensor_slices)
        examples = indices.map(
            lambda index: tf.nest.map_structure(lambda part: tf.gather(part, index), tensors)
        )
        return examples.apply(tf.data.experimental.assert_cardinality(count))


@attrs.frozen(kw_only=True, eq=False)
class _Selecting(Stage):
    """A stage that yields some of the elements that it is given, in their order."""

    yields: ClassVar[Yields] = "some"
    order: ClassVar[Order] = "kept"
    stops_early: ClassVar[bool] = False
    deterministic: bool | None = True


@attrs.frozen(kw_only=True, eq=False)
class Repeat(_Selecting):
    """Repeats the data; `count` None means without end."""

    kind: ClassVar[str] = "repeat"
    chooses: ClassVar[bool] = False
    count: int | None = None

    def lower(self, dataset: Any) -> Any:
        return dataset.repeat(self.count)

    def count_after(self, before: Count) -> Count:
        return attrs.evolve(
            before,
            elements=self._times(before.elements),
            inside=self._times(before.inside),
            examples=before.examples if before.batched else self._times(before.examples),
        )

    def _times(self, number: int | None) -> int | None:
        return None if number is None or self.count is None else number * self.count

    def describe(self) -> str:
        return "repeat: without end" if self.count is None else f"repeat: {self.count} times"


@attrs.frozen(kw_only=True, eq=False)
class Take(_Selecting):
    """The first `count` elements; all if it is negative."""

    kind: ClassVar[str] = "take"
    stops_early: ClassVar[bool] = True
    count: int

    def lower(self, dataset: Any) -> Any:
        return dataset.take(self.count)

    def count_after(self, before: Count) -> Count:
        # of an endless source too, a known number is taken; of an unknown one, at most that
        if self.count < 0 or before.elements is None:
            return before.with_elements(before.elements)
        return before.with_elements(min(before.elements, self.count))

    def describe(self) -> str:
        return f"take: {self.count:,}" if self.count >= 0 else "take: all"


@attrs.frozen(kw_only=True, eq=False)
class Skip(_Selecting):
    """All elements except the first `count`; none if it is negative."""

    kind: ClassVar[str] = "skip"
    count: int

    def lower(self, dataset: Any) -> Any:
        return dataset.skip(self.count)

    def count_after(self, before: Count) -> Count:
        if self.count < 0:
            return before.with_elements(0)
        left = None if before.elements is None else max(0, before.elements - self.count)
        return before.with_elements(left)

    def describe(self) -> str:
        return f"skip: {self.count:,}" if self.count >= 0 else "skip: all"


@attrs.frozen(kw_only=True, eq=False)
class Shard(_Selecting):
    """Every `count`-th element, beginning with that at `index`."""

    kind: ClassVar[str] = "shard"
    count: int
    index: int

    def lower(self, dataset: Any) -> Any:
        return dataset.shard(self.count, self.index)

    def count_after(self, before: Count) -> Count:
        if before.elements is None:
            return before.with_elements(None)
        return before.with_elements(max(0, math.ceil((before.elements - self.index) / self.count)))

    def describe(self) -> str:
        return f"shard: {self.index + 1} of {self.count}"
