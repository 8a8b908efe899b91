"""A shuffle that draws the order of batches and leaves together what is in one."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from tfopt_core.data import Shuffle


@attrs.frozen(kw_only=True, eq=False)
class ShuffleBatches(Shuffle):
    """Shuffles examples in groups of `size`, each of which becomes a batch.

    A smaller last group stays last.
    """

    kind: ClassVar[str] = "shuffle"
    size: int

    def lower(self, dataset: Any) -> Any:
        """Return the examples of `dataset`, whose number must be known."""
        import tensorflow as tf

        count = int(dataset.cardinality())
        full = count - count % self.size
        groups = super().lower(dataset.take(full).batch(self.size, drop_remainder=True))
        shuffled = groups.unbatch()
        if full < count:
            shuffled = shuffled.concatenate(dataset.skip(full))
        return shuffled.apply(tf.data.experimental.assert_cardinality(count))

    def describe(self) -> str:
        return f"shuffle: whole batches of {self.size:,}, anew each epoch"
