"""Keras and TensorFlow, imported when a test first uses them: collecting tests stays fast."""

from typing import Any

from tfopt_core.lazy import LazyModule, keras, tf

__all__ = ["keras", "layers", "tf"]

layers: Any = LazyModule("keras.layers")
