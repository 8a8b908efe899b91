"""Apply runtime options: environment variables, TensorFlow's settings at its start, its devices."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.machine import Gpu, Machine
from tfopt_core.hooks.values import RuntimeOptions
from tfopt_core.lazy import keras, tf

if TYPE_CHECKING:
    from tfopt_core.training.job import Job


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuse an environment that does not train with Keras 3 on TensorFlow.

    :raises InputError: for another Keras backend, or for legacy Keras.
    """
    backend = environment.get("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise InputError(
            f'KERAS_BACKEND is "{backend}", and tfopt optimizes TensorFlow training only; '
            "unset it, or set it to tensorflow"
        )
    if environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        raise InputError(
            "TF_USE_LEGACY_KERAS is set, and tfopt needs Keras 3 (legacy tf_keras has another "
            "training loop); unset it"
        )


def process_environment(
    base: Mapping[str, str], options: RuntimeOptions, *, debug: bool
) -> dict[str, str]:
    """Return the environment of a run's process: the user's, changed as the stack asks for.

    :param debug: show TensorFlow's start-up messages.
    """
    environment = {**base, "KERAS_BACKEND": "tensorflow"}
    if not debug:
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if options.intra_op_threads is not None:
        environment["TF_NUM_INTRAOP_THREADS"] = str(options.intra_op_threads)
    if options.inter_op_threads is not None:
        environment["TF_NUM_INTEROP_THREADS"] = str(options.inter_op_threads)
    if options.xla_flags:
        flags = [environment.get("XLA_FLAGS", ""), *options.xla_flags]
        environment["XLA_FLAGS"] = " ".join(flag for flag in flags if flag)
    for name, value in options.environment.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def start_tensorflow(options: RuntimeOptions, *, debug: bool, devices: bool = True) -> None:
    """Import TensorFlow, set the options and open its devices.

    TensorFlow's messages are hidden, since some are written before any log level takes effect.
    They are shown with `debug`, and if the start fails.

    :param devices: whether to open the devices; a strategy over several processes must be built
        before.
    """
    with contextlib.nullcontext() if debug else _hidden_stderr():
        apply_in_process(options)  # which imports TensorFlow
        if devices:
            tf.config.list_logical_devices()
            tf.zeros(1).numpy()  # hangs here, and not in a training, if a device cannot be used
    if debug:
        # Keras removes the frames and the cause of what a callback or plugin raises within `fit`
        keras.config.disable_traceback_filtering()


@contextlib.contextmanager
def _hidden_stderr() -> Iterator[None]:
    """Hide what native code writes to standard error, and show it only after an exception."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(shown, hidden.read())
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)


def apply_in_process(options: RuntimeOptions) -> None:
    """Set the options that TensorFlow accepts only in the process, before it opens a device."""
    if options.intra_op_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(options.intra_op_threads)
    if options.inter_op_threads is not None:
        tf.config.threading.set_inter_op_parallelism_threads(options.inter_op_threads)
    if options.grappler_options:
        tf.config.optimizer.set_experimental_options(dict(options.grappler_options))
    if options.logical_cpu_devices is not None:
        [cpu] = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration()] * options.logical_cpu_devices
        tf.config.set_logical_device_configuration(cpu, logical)
    for gpu in tf.config.list_physical_devices("GPU"):
        if options.gpu_memory_limit_bytes is not None:
            limit = options.gpu_memory_limit_bytes / 2**20
            tf.config.set_logical_device_configuration(
                gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)]
            )
        elif options.gpu_memory_growth is not None:
            tf.config.experimental.set_memory_growth(gpu, options.gpu_memory_growth)


def as_tensorflow_sees(machine: Machine) -> Machine:
    """Return the machine with only the GPUs that TensorFlow uses.

    A driver may list GPUs that this TensorFlow was not built for, or that CUDA_VISIBLE_DEVICES
    hides; and it may list none that TensorFlow uses, as AMD's does. A GPU's memory, which
    TensorFlow does not report, is taken from the list: by name, or by place where TensorFlow names
    as many GPUs otherwise.
    """
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
    sync: Callable[[], None] = tf.test.experimental.sync_devices
    return sync
