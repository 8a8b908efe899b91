"""The GPUs that TensorFlow uses, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tfopt_core.hooks import Gpu, Machine


def as_tensorflow_sees(machine: Machine) -> Machine:
    """Return the machine with only the GPUs that TensorFlow uses.

    A driver may list GPUs that this TensorFlow was not built for, or that CUDA_VISIBLE_DEVICES
    hides. A GPU's memory, which TensorFlow does not report, is taken from the driver's list.
    """
    import tensorflow as tf

    memory = {gpu.name: gpu.memory_bytes for gpu in machine.gpus}
    gpus = []
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        name = details.get("device_name", device.name)
        capability = details.get("compute_capability", (0, 0))
        gpus.append(Gpu(name, (int(capability[0]), int(capability[1])), memory.get(name, 0)))
    return attrs.evolve(machine, gpus=tuple(gpus))


def device_sync(machine: Machine) -> Callable[[], None] | None:
    """Return a function that waits for the device; None on a CPU, where each call waits already."""
    if not machine.gpus:
        return None
    import tensorflow as tf

    sync: Callable[[], None] = tf.test.experimental.sync_devices
    return sync
