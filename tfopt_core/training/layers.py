"""The layers of a model, with the layers nested in them."""

from __future__ import annotations

from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without


def nested_layers(model: Any) -> list[Any]:
    """Return all layers within a model or layer, nested ones too, without itself.

    :raises WorkloadError: if they cannot be listed with the installed Keras.
    """
    missing = why_without("nested-layers")
    if missing:
        raise WorkloadError(missing)
    return list(model._flatten_layers(include_self=False))
