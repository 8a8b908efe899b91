"""End a pass over the data as Keras' own loop ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class PassEnd:
    """What the calls of a train function do at the end of the data, in one fit.

    Keras makes no call past the end where it knows the number of batches. Where it does not, its
    loop of one step a call makes a step on a batch that is not there: TensorFlow fails once it
    takes the batch, but has done by then what does not depend on it. The optimizer counts a step
    more, and metrics count the examples of a batch whose size is known. Keras counts that step as a
    batch of the data, and makes no more steps than that in the passes that follow.

    :param own_steps: the steps of a call of Keras' own loop, which makes that step where it is 1.
    :param unknown: whether Keras does not know the number of batches.
    """

    own_steps: int = 1
    unknown: bool = False
    _most: int | None = None
    _iterator: Any = None
    _made: int = 0
    _kept_logs: Any = None
    _traced: tuple[Any, Any] = (None, None)

    def most_steps(self, iterator: Any, steps: int) -> int:
        """Return how many of the `steps` of a call Keras' own loop would make if it has data."""
        if iterator is not self._iterator:
            self._iterator, self._made = iterator, 0
        return steps if self._most is None else min(steps, self._most - self._made)

    def check(self, made: int, most: int, logs: Any, step: Any, ended: Callable[[], Any]) -> None:
        """End the epoch if the pass has ended.

        :param made: how many of the `most` steps of a call were made.
        :param logs: those of the last one.
        :param step: makes one step on a batch.
        :param ended: returns an iterator that has no batch left.
        :raises StopIteration: if it has.
        """
        self._made += made
        if made == most or (made and not self.unknown):
            return
        if self.own_steps == 1:
            self._make_step(step, ended())
        own_calls = -(-self._made // self.own_steps)
        if self.unknown and self._most is None:
            self._most = (own_calls + 1) * self.own_steps
        if own_calls * self.own_steps == self._most:
            self._made = self._most  # Keras makes no call that would find the end
            return
        if made:
            self._kept_logs = logs
        raise StopIteration

    def logs_of_epoch(self, logs: Any) -> Any:
        """Return the logs of an epoch's last call, which `fit` has not seen if it raised."""
        kept, self._kept_logs = self._kept_logs, None
        return logs if kept is None else kept

    def _make_step(self, step: Any, iterator: Any) -> None:
        import tensorflow as tf

        if self._traced[0] is not step:
            self._traced = (
                step,
                tf.function(
                    lambda iterator: step(iterator.get_next()),
                    autograph=False,
                    reduce_retracing=True,
                ),
            )
        with contextlib.suppress(tf.errors.OutOfRangeError):
            self._traced[1](iterator)
