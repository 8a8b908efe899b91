"""The layers of a model, and the layers within them."""

from __future__ import annotations

from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without


def nested_layers(model: Any) -> list[Any]:
    """Return the layers of a model or layer, those within them too, but for itself.

    :raises WorkloadError: if the installed Keras does not tell them.
    """
    missing = why_without("nested-layers")
    if missing:
        raise WorkloadError(missing)
    return list(model._flatten_layers(include_self=False))
