"""Hold batches back, so that a train function that fails loses none of them."""

from __future__ import annotations

import itertools
from typing import Any

import attrs


@attrs.define(eq=False)
class HeldBatches:
    """The next batches of an epoch's iterator, which can be iterated over more than once.

    Its iterators have the type of the epoch's own iterator, so that a function needs only one
    trace for both.
    """

    iterator: Any
    strategy: Any
    batches: list[Any] = attrs.field(factory=list)

    def again(self) -> Any:
        """Return a new iterator over the batches that are held when it is used."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_generator(
            lambda: iter(self.batches), output_signature=self.iterator.element_spec
        )
        return iter(self.strategy.experimental_distribute_dataset(dataset))

    def fetch(self, count: int) -> int:
        """Take up to `count` batches from the epoch's iterator. Return how many are held.

        :raises StopIteration: if there is none.
        """
        self.batches.extend(itertools.islice(self.iterator, count))
        if not self.batches:
            raise StopIteration
        return len(self.batches)
