"""How often the fits of a script have read its data sets, so that each fit goes on from there.

A reshuffling shuffle draws other seeds for each iterator over its data set. With a stack, a fit may
read another data set in the place of the script's, whose shuffle would begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data import dissect
from tfopt_core.training.checkpoints.data_order import pass_over
from tfopt_core.training.loops.train_functions import reads_before_fit
from tfopt_core.training.scripts.call import FitCall


@attrs.define(eq=False)
class EpochsRead:
    """The epochs of each `tf.data.Dataset` of a script that fits have read, by split."""

    _epochs: dict[str, WeakKeyDictionary[Any, int]] = attrs.field(
        factory=lambda: {"train": WeakKeyDictionary(), "validation": WeakKeyDictionary()}
    )

    def go_on(self, call: FitCall, split: str, replacement: Any) -> None:
        """Have the data set that this call reads in the place of its own begin with the epoch that
        comes next."""
        import tensorflow as tf

        given = call.splits[split][0]
        if isinstance(given, tf.data.Dataset) and isinstance(replacement, tf.data.Dataset):
            _pass_over(replacement, self._epochs[split].get(given, 0), call, split)

    def add(self, call: FitCall, replaced: Mapping[str, Any], epochs: int) -> None:
        """Count the epochs of a call, and have its own data sets draw the seeds for those in which
        others were read in their place."""
        import tensorflow as tf

        for split, (given, *_) in call.splits.items():
            if not isinstance(given, tf.data.Dataset) or not _is_made_each_epoch(call, split):
                continue
            self._epochs[split][given] = self._epochs[split].get(given, 0) + epochs
            if split in replaced:
                _pass_over(given, epochs, call, split)


def _pass_over(data: Any, epochs: int, call: FitCall, split: str) -> None:
    # a shuffle that draws while it is read keeps its order: reading may take as long as training
    if epochs and dissect.passes_to_read(data) == "none":
        pass_over(data, epochs, reads_before_fit(call.model) and split == "validation")


def _is_made_each_epoch(call: FitCall, split: str) -> bool:
    """Return whether Keras makes an iterator for each epoch; else one goes on in the next epoch."""
    given = call.arguments
    if split == "train":
        return given["steps_per_epoch"] is None
    return given["validation_steps"] is None and given["validation_freq"] == 1
