"""Write `RuntimeOptions` as statements that run before and right after TensorFlow is imported."""

from __future__ import annotations

from collections.abc import Iterator

from tfopt_core.hooks import RuntimeOptions
from tfopt_core.hooks.code.literals import literal


def environment(options: RuntimeOptions) -> Iterator[str]:
    """Yield statements that must run before TensorFlow is imported."""
    yield 'os.environ["KERAS_BACKEND"] = "tensorflow"'
    if options.xla_flags:
        flags = literal(" " + " ".join(options.xla_flags))
        yield f'os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + {flags}'
    for name, value in options.environment.items():
        if value is None:
            yield f"os.environ.pop({literal(name)}, None)"
        else:
            yield f"os.environ[{literal(name)}] = {literal(value)}"


def start(options: RuntimeOptions) -> Iterator[str]:
    """Yield statements that must run before TensorFlow opens its devices."""
    for kind, threads in (
        ("intra", options.intra_op_threads),
        ("inter", options.inter_op_threads),
    ):
        if threads is not None:
            yield f"tf.config.threading.set_{kind}_op_parallelism_threads({threads})"
    if options.grappler_options:
        options_literal = literal(dict(options.grappler_options))
        yield f"tf.config.optimizer.set_experimental_options({options_literal})"
    if options.logical_cpu_devices is not None:
        logical = f"[tf.config.LogicalDeviceConfiguration()] * {options.logical_cpu_devices}"
        yield '[cpu] = tf.config.list_physical_devices("CPU")'
        yield f"tf.config.set_logical_device_configuration(cpu, {logical})"
    if options.gpu_memory_limit_bytes is not None:
        limit = literal(options.gpu_memory_limit_bytes / 2**20)
        logical = f"tf.config.LogicalDeviceConfiguration(memory_limit={limit})"
        yield 'for gpu in tf.config.list_physical_devices("GPU"):'
        yield f"    tf.config.set_logical_device_configuration(gpu, [{logical}])"
    elif options.gpu_memory_growth is not None:
        yield 'for gpu in tf.config.list_physical_devices("GPU"):'
        growth = options.gpu_memory_growth
        yield f"    tf.config.experimental.set_memory_growth(gpu, {growth})"
