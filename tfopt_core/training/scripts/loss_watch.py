"""Watch whether the losses and the weights of a script's own training loop stay finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

NOT_WATCHED = (
    "the script computes its loss within a tf.function, where it is not watched for nan; its "
    "weights are checked at the end of each run"
)


@attrs.define(eq=False)
class LossWatch:
    """Holds the last loss that Python was given, by an eager gradient tape or `train_on_batch`.

    It is read at the end of a run, since reading waits for the device. A loss of nan makes the
    weights nan, and with them the losses that follow.
    """

    _last: Any = None

    @property
    def seen(self) -> bool:
        """Whether Python was given any loss."""
        return self._last is not None

    def see_target(self, target: Any) -> None:
        """Take what an eager tape derives."""
        self._last = target

    def see_logs(self, logs: Any) -> None:
        """Take the result of `train_on_batch`: a loss, a list that begins with it, or a dict."""
        if isinstance(logs, Mapping):
            logs = logs.get("loss")
        self._last = logs[0] if isinstance(logs, Sequence) and logs else logs

    def why_diverged(self, weights: Iterable[Any], updates: int) -> str | None:
        """Return which of the last loss and the weights is not finite; None if all are.

        :param updates: how many were made.
        """
        import keras
        import numpy as np

        for value in keras.tree.flatten(self._last) if self.seen else ():
            numbers = np.asarray(value, dtype=np.float64)
            if not np.isfinite(numbers).all():
                wrong = numbers[~np.isfinite(numbers)].flat[0]
                return f"the loss was {wrong} at update {updates:,}"
        for weight in weights:
            if not bool(keras.ops.all(keras.ops.isfinite(weight))):
                name = getattr(weight, "path", weight.name)
                return f'the weight "{name}" is not finite after update {updates:,}'
        return None
