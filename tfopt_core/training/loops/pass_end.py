"""End a pass over the data as Keras' own loop ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class PassEnd:
    """What a call of a train function does that finds too few batches.

    Keras makes no call past the end where it knows the number of batches. Where it does not, its
    loop of one step a call makes a step on a batch that is not there: TensorFlow fails once it
    takes the batch, but has done by then what does not depend on it. The optimizer counts a step
    more, and metrics count the examples of a batch whose size is known.

    :param counts_step: whether Keras' own loop makes that step; not with several steps a call.
    :param ends_short: whether a call with some batches ends the epoch too, as that step does where
        `steps_per_epoch` is given for an unknown number of batches.
    """

    counts_step: bool = False
    ends_short: bool = False
    _step: Any = None

    def check(self, made: int, steps: int, step: Any, ended: Callable[[], Any]) -> None:
        """End the epoch if the pass has ended.

        :param made: how many of the `steps` of a call were made.
        :param step: makes one step on a batch.
        :param ended: returns an iterator that has no batch left.
        :raises StopIteration: if it has.
        """
        if made and not (self.ends_short and made < steps):
            return
        if self.counts_step:
            self._make_step(step, ended())
        raise StopIteration

    def _make_step(self, step: Any, iterator: Any) -> None:
        import tensorflow as tf

        if self._step is None:
            self._step = tf.function(
                lambda iterator: step(iterator.get_next()), autograph=False, reduce_retracing=True
            )
        try:
            self._step(iterator)
        except tf.errors.OutOfRangeError as error:
            raise StopIteration from error
