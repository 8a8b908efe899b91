"""How a strategy makes its steps: what decides which loop trains."""

from __future__ import annotations

from typing import Any, Literal

from tfopt_core.private_api import why_without

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


def feeds_itself(strategy: Any) -> bool:
    """Whether this process shares its own data set out among its replicas.

    Several processes have one each. On the devices of one CPU nothing has to be copied ahead, and
    TensorFlow's iterator over several devices only takes time (half of a small step).
    """
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    devices = strategy.extended.worker_devices
    return isinstance(strategy, tf.distribute.MirroredStrategy) and all(
        "CPU" in device.upper() for device in devices
    )


# A strategy takes one group of replicas, and a few more within it.
KEYS_OF_A_STRATEGY = 1_000


def apart_from_earlier_strategies() -> None:
    """Number the collective operations of the next MirroredStrategy unlike those before it.

    TensorFlow numbers them from the same key in each one, so that two strategies of one process (a
    dry build and a probe, say) take each other's: "Shape mismatch in the collective instance".
    """
    import tensorflow as tf

    if why_without("strategies-apart"):
        return
    tf.distribute.MirroredStrategy._collective_key_base += KEYS_OF_A_STRATEGY
