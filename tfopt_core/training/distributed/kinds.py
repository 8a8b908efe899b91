"""How a strategy makes its steps: what decides which loop trains."""

from __future__ import annotations

from typing import Any, Literal

Kind = Literal["single", "synchronous", "coordinated"]


def kind_of(strategy: Any) -> Kind:
    """Whether the strategy makes steps on one device, on several together, or hands them out."""
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy):
        return "coordinated"
    together = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
        tf.distribute.TPUStrategy,
    )
    return "synchronous" if isinstance(strategy, together) else "single"


def spans_processes(strategy: Any) -> bool:
    """Whether every process feeds its own replicas from a data set of its own."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
