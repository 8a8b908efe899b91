"""The GPUs that TensorFlow uses, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tfopt_core.hooks import Gpu, Machine
from tfopt_core.training.job import Job


def as_tensorflow_sees(machine: Machine) -> Machine:
    """Return the machine with only the GPUs that TensorFlow uses.

    A driver may list GPUs that this TensorFlow was not built for, or that CUDA_VISIBLE_DEVICES
    hides; and it may list none that TensorFlow uses, as AMD's does. A GPU's memory, which
    TensorFlow does not report, is taken from the list: by name, or by place where TensorFlow names
    as many GPUs otherwise.
    """
    import tensorflow as tf

    devices, listed, gpus = tf.config.list_physical_devices("GPU"), list(machine.gpus), []
    alike = len(devices) == len(listed)
    for device in devices:
        details = tf.config.experimental.get_device_details(device)
        name = details.get("device_name", device.name)
        capability = details.get("compute_capability", (0, 0))
        known = next((gpu for gpu in listed if gpu.name == name), None)
        known = listed[0] if known is None and alike else known
        sizes = (0, 0) if known is None else (known.memory_bytes, known.free_bytes)
        if known is not None:
            listed.remove(known)
        gpus.append(Gpu(name, (int(capability[0]), int(capability[1])), *sizes))
    return attrs.evolve(machine, gpus=tuple(gpus))


def seen_by_tensorflow(job: Job) -> Job:
    """Return the job on the machine as TensorFlow sees it. TensorFlow is imported here."""
    return attrs.evolve(job, machine=as_tensorflow_sees(job.machine))


def device_sync(machine: Machine) -> Callable[[], None] | None:
    """Return a function that waits for the device; None on a CPU, where each call waits already."""
    if not machine.gpus:
        return None
    import tensorflow as tf

    sync: Callable[[], None] = tf.test.experimental.sync_devices
    return sync
