"""Batches held back, so that a train function that fails loses none of them."""

from __future__ import annotations

import itertools
from typing import Any

import attrs


@attrs.define(eq=False)
class HeldBatches:
    """The next batches of an epoch's iterator, to be iterated over as often as it takes.

    What iterates over them has the type of the epoch's own iterator, so that a function that is
    traced with the one needs no other trace for the other.
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
        """Take up to so many batches from the epoch's iterator; how many there were.

        :raises StopIteration: if there was none.
        """
        self.batches.extend(itertools.islice(self.iterator, count))
        if not self.batches:
            raise StopIteration
        return len(self.batches)
