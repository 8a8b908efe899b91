"""Keras and TensorFlow, imported when a test first uses them: collecting tests stays fast."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module of this name, which is imported when an attribute of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


# Any, as a module that mypy does not follow
keras: Any = LazyModule("keras")
layers: Any = LazyModule("keras.layers")
tf: Any = LazyModule("tensorflow")
