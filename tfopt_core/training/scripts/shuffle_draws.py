"""Count how often a script's reshuffling shuffles draw their seeds, so that each fit goes on there.

Such a shuffle draws other seeds for each iterator over its data set, also for one that adapts a
layer or shows a batch before `fit`. With a stack, a fit may read another data set in the place of
the script's, whose shuffles would begin anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data import dissect
from tfopt_core.training.checkpoints.data_order import pass_over
from tfopt_core.training.loops.train_functions import reads_before_fit
from tfopt_core.training.scripts.call import FitCall

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

    def go_on(self, call: FitCall, split: str, replacement: Any) -> None:
        """Have the data set that this call reads in the place of its own draw the seeds that come
        next.
        """
        self.follow(call.splits[split][0], replacement)

    def follow(self, given: Any, replacement: Any) -> None:
        """Have a data set draw the seeds that come next in the script's own, which it replaces.

        Each shuffle draws as often as the one with the same seeds in the script's data set has.
        """
        import tensorflow as tf

        if not isinstance(given, tf.data.Dataset) or not isinstance(replacement, tf.data.Dataset):
            return
        if not _draws_at_the_start(replacement):
            return
        begun = {seeds: self._draws.get(one, 0) for seeds, one in _by_seeds(given).items()}
        for seeds, shuffle in _by_seeds(replacement).items():
            for _ in range(begun.get(seeds, 0) - self._draws.get(shuffle, 0)):
                iter(shuffle)

    def add(self, call: FitCall, replaced: Mapping[str, Any], epochs: int) -> None:
        """Have the data sets of a call draw the seeds for the epochs in which others were read in
        their place."""
        import tensorflow as tf

        for split, (given, *_) in call.splits.items():
            if not isinstance(given, tf.data.Dataset) or not _is_made_each_epoch(call, split):
                continue
            if split in replaced and _draws_at_the_start(given):
                pass_over(given, epochs, reads_before_fit(call.model) and split == "validation")

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def counted(dataset: Any, *given: Any, **named: Any) -> Any:
            for shuffle in dissect.reshuffling(dataset):
                self._draws[shuffle] = self._draws.get(shuffle, 0) + 1
            return method(dataset, *given, **named)

        return counted


def _draws_at_the_start(dataset: Any) -> bool:
    # a shuffle that draws while it is read keeps its order: reading may take as long as training
    return dissect.passes_to_read(dataset) == "none"


def _by_seeds(dataset: Any) -> dict[tuple[int, int], Any]:
    return {dissect.seeds_of(shuffle): shuffle for shuffle in dissect.reshuffling(dataset)}


def _is_made_each_epoch(call: FitCall, split: str) -> bool:
    """Return whether Keras makes an iterator for each epoch; else one goes on in the next epoch."""
    given = call.arguments
    if split == "train":
        return given["steps_per_epoch"] is None
    return given["validation_steps"] is None and given["validation_freq"] == 1
