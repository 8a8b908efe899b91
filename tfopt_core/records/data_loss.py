"""The validation loss without penalties: its name, and whether it differs from the loss."""

from __future__ import annotations

from collections.abc import Mapping

NAME = "val_data_loss"
# Losses with and without penalties that differ by less, relatively, are one and the same.
SAME_LOSS = 1e-6


def differs_from_loss(metrics: Mapping[str, float]) -> bool:
    """Return whether the loss without penalties differs, so that the model has penalties."""
    loss, data_loss = metrics.get("val_loss"), metrics.get(NAME)
    if loss is None or data_loss is None:
        return False
    return abs(loss - data_loss) > SAME_LOSS * max(abs(loss), abs(data_loss))
