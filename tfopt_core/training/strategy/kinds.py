"""Tell how a strategy makes its steps, which decides which loop trains."""

from __future__ import annotations

from typing import Any, Literal

from tfopt_core.private_api import why_without

Kind = Literal["single", "synchronous", "coordinated"]


def kind_of(strategy: Any) -> Kind:
    """Return whether the strategy makes steps on one device, on several together, or on workers."""
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
    """Return whether this process divides its own data set among its replicas.

    Each of several processes has its own data set. On devices of one CPU nothing has to be copied,
    and TensorFlow's iterator over several devices only costs time (half of a small step).
    """
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    devices = strategy.extended.worker_devices
    return isinstance(strategy, tf.distribute.MirroredStrategy) and all(
        "CPU" in device.upper() for device in devices
    )


# A strategy uses a few keys: one for its group of replicas, and some within it.
KEYS_OF_A_STRATEGY = 1_000


def apart_from_earlier_strategies() -> None:
    """Give the next MirroredStrategy other keys of collective operations than earlier ones.

    TensorFlow numbers them from the same key in each strategy, so that two of one process (of a
    dry build and a probe, for example) clash: "Shape mismatch in the collective instance".
    """
    import tensorflow as tf

    if why_without("strategies-apart"):
        return
    tf.distribute.MirroredStrategy._collective_key_base += KEYS_OF_A_STRATEGY


def hide_one_device(model: Any, strategy: Any) -> None:
    """Have Keras train a model within the scope of a strategy of one device as without it.

    Keras would take a batch before each `fit` and `evaluate`, to build the model of it: an element
    of a generator is lost so, and a shuffle draws once more. Its steps are on the device all the
    same, within the scope.
    """
    import tensorflow as tf

    if type(strategy) is tf.distribute.OneDeviceStrategy and not why_without("own-strategy"):
        model._distribute_strategy = None
