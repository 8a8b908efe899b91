"""The devices that TensorFlow opened: what counts, whatever else the machine has."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tfopt_core.hooks import Gpu, Machine


def as_tensorflow_sees(machine: Machine) -> Machine:
    """The machine with the GPUs that TensorFlow uses, and no others.

    A driver may list GPUs that this TensorFlow was not built for, or that CUDA_VISIBLE_DEVICES
    hides. What TensorFlow does not tell of one, its memory, is taken from the driver's listing.
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
    """What waits for the device; on a CPU a call of the train function has waited already."""
    if not machine.gpus:
        return None
    import tensorflow as tf

    sync: Callable[[], None] = tf.test.experimental.sync_devices
    return sync
