"""TensorFlow, Keras and NumPy for the top of a file: each is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["keras", "np", "tf"]


class LazyModule:
    """A module that is imported when the first of its attributes is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":  # as a tool asks of any object
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf
else:
    keras, np, tf = map(LazyModule, ("keras", "numpy", "tensorflow"))
