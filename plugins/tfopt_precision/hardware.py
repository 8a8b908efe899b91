"""The dtype policy that a machine computes natively."""

from __future__ import annotations

from typing import Literal

from tfopt_core.plugins import Machine

# CUDA compute capability from which tensor cores do float16 (Volta), and bfloat16 and
# TensorFloat-32 (Ampere).
FLOAT16_CAPABILITY = (7, 0)
BFLOAT16_CAPABILITY = (8, 0)

Policy = Literal["auto", "mixed_bfloat16", "mixed_float16", "float32"]


def choose_policy(machine: Machine) -> tuple[Policy, str]:
    """Return the fastest policy that the hardware computes natively, and the reason for it."""
    if machine.gpus:
        weakest = min(machine.gpus, key=lambda gpu: gpu.compute_capability)
        capability = ".".join(map(str, weakest.compute_capability))
        gpu = f"{weakest.name} has compute capability {capability}"
        if weakest.compute_capability >= BFLOAT16_CAPABILITY:
            return "mixed_bfloat16", f"{gpu}: float16, bfloat16 and TensorFloat-32 on tensor cores"
        if weakest.compute_capability >= FLOAT16_CAPABILITY:
            return (
                "mixed_float16",
                f"{gpu}: float16 on tensor cores, neither bfloat16 nor TensorFloat-32",
            )
        return "float32", f"{gpu}: it has no tensor cores"
    if machine.has_bfloat16_cpu:
        return "mixed_bfloat16", "no GPU, and the CPU multiplies bfloat16 natively"
    return "float32", "no GPU, and the CPU computes neither bfloat16 nor float16 natively"


def formats_of_gpu(machine: Machine, tf32_enabled: bool) -> str:
    """Return in a sentence what the weakest GPU multiplies on tensor cores.

    :param tf32_enabled: whether TensorFlow takes TensorFloat-32 for products of float32.
    """
    reason = choose_policy(machine)[1]
    if min(gpu.compute_capability for gpu in machine.gpus) < BFLOAT16_CAPABILITY:
        return reason
    if tf32_enabled:
        return f"{reason}, the last in products of float32 already, which is what 16 bits must beat"
    return f"{reason}, the last switched off, so that products of float32 use no tensor cores"
