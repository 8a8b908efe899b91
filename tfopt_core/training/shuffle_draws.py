"""Count how often reshuffling shuffles draw their seeds, so that each pass goes on where it must.

Such a shuffle draws other seeds for each iterator over its data set, also for one that adapts a
layer or shows a batch before `fit`. With a stack, a fit may read another data set in the place of
its own, whose shuffles would begin anew; and a resident loop reads no data set at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data import dissect

# The methods by which a data set is read, in Python and in one operation.
READING = ("__iter__", "reduce")


@attrs.define(eq=False)
class ShuffleDraws:
    """Counts the iterators over each reshuffling shuffle while it is installed."""

    _draws: WeakKeyDictionary[Any, int] = attrs.field(factory=WeakKeyDictionary)
    _put_back: list[Callable[[], None]] = attrs.field(factory=list)

    def install(self) -> None:
        """Replace the methods by which a `tf.data.Dataset` is read."""
        import tensorflow as tf

        for name in READING:
            method = getattr(tf.data.Dataset, name)
            setattr(tf.data.Dataset, name, self._counting(method))
            self._put_back.append(functools.partial(setattr, tf.data.Dataset, name, method))

    def remove(self) -> None:
        """Restore the methods."""
        while self._put_back:
            self._put_back.pop()()

    def counter(self, dataset: Any) -> Callable[[], int] | None:
        """Return a function that counts the iterators over a data set; None if nothing counts them,
        or the data set draws no seeds."""
        shuffles = list(dissect.reshuffling(dataset))
        if not self._put_back or not shuffles:
            return None
        return lambda: max(self._draws.get(one, 0) for one in shuffles)

    def follow(self, given: Any, replacement: Any) -> None:
        """Have a data set draw the seeds that come next in the one that it replaces, or that has
        replaced it.

        Each shuffle draws as often as the one with the same seeds in the other data set has.
        """
        import tensorflow as tf

        if not isinstance(given, tf.data.Dataset) or not isinstance(replacement, tf.data.Dataset):
            return
        if not draws_at_the_start(replacement):
            return
        begun = {seeds: self._draws.get(one, 0) for seeds, one in _by_seeds(given).items()}
        for seeds, shuffle in _by_seeds(replacement).items():
            for _ in range(begun.get(seeds, 0) - self._draws.get(shuffle, 0)):
                iter(shuffle)

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def counted(dataset: Any, *given: Any, **named: Any) -> Any:
            for shuffle in dissect.reshuffling(dataset):
                self._draws[shuffle] = self._draws.get(shuffle, 0) + 1
            return method(dataset, *given, **named)

        return counted


def draws_at_the_start(dataset: Any) -> bool:
    """Return whether each shuffle draws when an iterator over the whole data set is made.

    One that draws while it is read is not moved on: reading may take as long as training.
    """
    return dissect.passes_to_read(dataset) == "none"


def _by_seeds(dataset: Any) -> dict[tuple[int, int], Any]:
    return {dissect.seeds_of(shuffle): shuffle for shuffle in dissect.reshuffling(dataset)}
