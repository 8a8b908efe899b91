"""GPU memory: TensorFlow takes it as needed, up to a limit, or by CUDA's own allocator."""

from __future__ import annotations

import os
from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Effect,
    Machine,
    Plugin,
    RunContext,
    RuntimeOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import tf

NO_GPU = "there is no GPU, and on a CPU TensorFlow takes memory as needed anyway"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
ALLOCATOR, ASYNC = "TF_GPU_ALLOCATOR", "cuda_malloc_async"


@plugin
class GpuMemory(Plugin):
    """Has TensorFlow take GPU memory as needed, up to a limit, or by CUDA's allocator.

    What it does: sets memory growth, or a limit, for every GPU before TensorFlow opens it; async
    has memory allocated by cudaMallocAsync (TF_GPU_ALLOCATOR=cuda_malloc_async), which gives free
    memory back. TensorFlow's own choice is nearly all memory of the GPU, at once.

    Why it helps: several processes share a GPU; async fragments less where the sizes of tensors
    change. The peak memory that tfopt reports is that of the tensors, with it and without.

    When it does not: on a CPU. It makes no step faster: growth may fragment memory, and the first
    steps wait for allocations. A limit that is too small ends the training.

    Mixes with: everything; mirrored takes the same settings on each GPU.

    Reference: https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth
    """

    targets = ("memory",)
    equivalence = "exact"  # where tensors lie changes no number

    growth: bool = setting(default=True, help="Whether memory is taken as needed, not all at once.")
    limit_mib: int | None = setting(
        default=None,
        validator=validators.optional(validators.ge(1)),
        help="Take so many MiB of each GPU at once, not more; needs growth = false.",
    )
    allocator: Literal["own", "async"] = setting(
        default="own", help="TensorFlow's own allocator, or CUDA's cudaMallocAsync."
    )

    def __attrs_post_init__(self) -> None:
        if self.growth and self.limit_mib is not None:
            raise ValueError(
                "TensorFlow takes memory as needed or up to a limit, not both; set growth = false "
                "beside limit_mib"
            )

    @hookimpl
    def configure_runtime(self, machine: Machine, options: RuntimeOptions) -> RuntimeOptions:
        """Set the memory of all GPUs, if there is one."""
        if not machine.gpus:
            return options
        # what is set in the process does not count where this variable is set
        environment = {**options.environment, GROWTH: "true" if self.growth else "false"}
        if self.allocator == "async":
            environment[ALLOCATOR] = ASYNC
        options = attrs.evolve(options, environment=environment)
        if self.limit_mib is not None:
            return attrs.evolve(options, gpu_memory_limit_bytes=self.limit_mib * 2**20)
        return attrs.evolve(options, gpu_memory_growth=self.growth)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read growth, limit and allocator back from TensorFlow."""
        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:
            seen = "TensorFlow sees no GPU" if run.machine.gpus else NO_GPU
            return Effect.not_applied(seen)
        found = [_of_gpu(gpu) for gpu in gpus]
        asked = (None if self.limit_mib is not None else self.growth, self.limit_mib)
        used = os.environ.get(ALLOCATOR, "")
        said = f"{_in_words(*found[0])}{', cudaMallocAsync' if used == ASYNC else ''}"
        if any(one != asked for one in found) or (self.allocator == "async") > (used == ASYNC):
            return Effect.not_applied(f"TensorFlow reads back {said}")
        if asked == (False, None) and used != ASYNC:
            return Effect.not_applied(f"{said} is TensorFlow's own choice")
        return Effect.applied_as(f"{said} on {len(gpus)} GPU{'s' if gpus[1:] else ''}")

    def by_hand(self) -> str:
        """The same in plain code."""
        lines = []
        if self.allocator == "async":
            lines.append(f'os.environ["{ALLOCATOR}"] = "{ASYNC}"  # before TensorFlow is imported')
        lines.append('for gpu in tf.config.list_physical_devices("GPU"):')
        if self.limit_mib is None:
            lines.append(f"    tf.config.experimental.set_memory_growth(gpu, {self.growth})")
        else:
            made = f"tf.config.LogicalDeviceConfiguration(memory_limit={self.limit_mib})"
            lines.append(f"    tf.config.set_logical_device_configuration(gpu, [{made}])")
        return "\n".join(lines)


def _of_gpu(gpu: Any) -> tuple[bool | None, int | None]:
    """Return growth and limit in MiB of a GPU, as TensorFlow reads them back."""
    for logical in tf.config.get_logical_device_configuration(gpu) or ():
        if logical.memory_limit is not None:
            return None, int(logical.memory_limit)
    return bool(tf.config.experimental.get_memory_growth(gpu)), None


def _in_words(growth: bool | None, limit_mib: int | None) -> str:
    if limit_mib is not None:
        return f"at most {limit_mib:,} MiB"
    return "memory as needed" if growth else "all memory at once"
