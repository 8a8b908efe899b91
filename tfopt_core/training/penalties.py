"""Take the penalties on weights off the validation loss: a penalty alone moves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfopt_core.records.fit import NAME


def with_data_loss(metrics: Mapping[str, float], model: Any) -> dict[str, float]:
    """Return the metrics of an epoch with `val_data_loss`: `val_loss` less the penalties on the
    weights as they are. Losses that a layer adds itself stay in both."""
    if "val_loss" not in metrics:
        return dict(metrics)
    penalty = sum(
        float(variable.regularizer(variable))
        for variable in model.trainable_variables
        if getattr(variable, "regularizer", None) is not None
    )
    return {**metrics, NAME: metrics["val_loss"] - penalty}
