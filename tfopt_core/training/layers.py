"""The layers of a model, with the layers nested in them."""

from __future__ import annotations

import math
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without

# The attribute of a model's class that holds what `trained_part` returns.
TRAINED_PART = "tfopt_trained_part"


def trained_part(model: Any) -> Any:
    """Return the model that training steps call in place of this one; mostly itself.

    A plugin that computes the frozen layers before the training has steps call the rest.
    """
    return getattr(type(model), TRAINED_PART, model)


def nested_layers(model: Any) -> list[Any]:
    """Return all layers within a model or layer, nested ones too, without itself.

    :raises WorkloadError: if they cannot be listed with the installed Keras.
    """
    missing = why_without("nested-layers")
    if missing:
        raise WorkloadError(missing)
    return list(model._flatten_layers(include_self=False))


def frozen_share(model: Any) -> float:
    """Return the share of a model's weights that are in layers which are not to be trained; 0.0 if
    layers cannot be listed with the installed Keras."""
    if why_without("nested-layers"):
        return 0.0
    all_weights = {id(weight): math.prod(weight.shape) for weight in model.weights}
    frozen = {
        id(weight)
        for layer in nested_layers(model)
        if not layer.trainable and not nested_layers(layer)
        for weight in layer.weights
    }
    total = sum(all_weights.values())
    return sum(all_weights.get(weight, 0) for weight in frozen) / total if total else 0.0
