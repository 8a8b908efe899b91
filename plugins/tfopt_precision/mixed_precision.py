"""Mixed precision: layers compute in 16 bits, variables stay in float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, validators

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    PluginRefused,
    PrecisionPolicy,
    Probe,
    RunContext,
    ValueHook,
    hookimpl,
    nested_layers,
    why_without,
)

# CUDA compute capability from which tensor cores do float16 (Volta) and bfloat16 (Ampere).
FLOAT16_CAPABILITY = (7, 0)
BFLOAT16_CAPABILITY = (8, 0)
# A model that reaches less of the matrix-product peak computes little that 16 bits make faster.
LEAST_MATMUL_SHARE = 0.02
# Where the machine's own products gain less, a model's casts eat it up.
LEAST_PEAK_RATIO = 1.1

Policy = Literal["auto", "mixed_bfloat16", "mixed_float16", "float32"]


def choose_policy(machine: Machine) -> tuple[Policy, str]:
    """The fastest policy that the hardware computes natively, and the reason for it."""
    if machine.gpus:
        weakest = min(machine.gpus, key=lambda gpu: gpu.compute_capability)
        capability = ".".join(map(str, weakest.compute_capability))
        gpu = f"{weakest.name} has compute capability {capability}"
        if weakest.compute_capability >= BFLOAT16_CAPABILITY:
            return "mixed_bfloat16", f"{gpu}: bfloat16 on tensor cores"
        if weakest.compute_capability >= FLOAT16_CAPABILITY:
            return "mixed_float16", f"{gpu}: float16 on tensor cores, no bfloat16"
        return "float32", f"{gpu}: it has no tensor cores"
    if machine.has_bfloat16_cpu:
        return "mixed_bfloat16", "no GPU, and the CPU multiplies bfloat16 natively"
    return "float32", "no GPU, and the CPU computes neither bfloat16 nor float16 natively"


def _positive_or_dynamic(_: Any, __: Any, value: Any) -> None:
    if value != "dynamic" and not value > 0:
        raise ValueError(f'loss_scale must be above 0 or "dynamic", got {value}')


@attrs.frozen(kw_only=True, eq=False)
class MixedPrecision:
    """Computes in 16 bits what may be, and keeps variables and outputs in float32.

    What it does: sets Keras' dtype policy to mixed_bfloat16 or mixed_float16. Output layers stay
    in float32, and float16 gets loss scaling.

    Why it helps: tensor cores, and CPUs with native bfloat16, multiply 16-bit numbers several
    times faster; activations take half of the memory.

    When it does not: without such hardware it is slower, float16 on a CPU many times. Small models
    that wait for their input or for Python gain nothing. Depthwise convolutions may lose in
    float16: keep them by float32_layers.

    Mixes with: xla, large batches. A custom train_step must scale its loss itself for float16.

    Reference: Micikevicius et al., Mixed Precision Training, https://arxiv.org/abs/1710.03740
    """

    targets: ClassVar[tuple[str, ...]] = ("compute", "memory")

    policy: Policy = field(
        default="auto",
        validator=validators.in_(("auto", "mixed_bfloat16", "mixed_float16", "float32")),
        metadata={"help": "Keras' dtype policy; auto takes what the hardware computes natively."},
    )
    loss_scale: Literal["dynamic"] | float = field(
        default="dynamic",
        validator=_positive_or_dynamic,
        metadata={"help": "Factor on the loss for float16: dynamic, or a fixed number above 0."},
    )
    force: bool = field(
        default=False,
        metadata={"help": "Whether float16 is allowed without a GPU, where it is very slow."},
    )
    float32_layers: tuple[str, ...] = field(
        default=(),
        converter=tuple,
        metadata={"help": "Names of layers that stay in float32; shell patterns are allowed."},
    )

    def math(self) -> Literal["rounding"]:
        """The same algorithm in other precision."""
        return "rounding"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where the hardware multiplies 16-bit numbers faster, and the model multiplies enough."""
        policy = choose_policy(diagnosis.machine)[0]
        if policy == "float32" or diagnosis.policy != "float32":
            return None
        share, peaks = diagnosis.matmul_share, diagnosis.matmul_peaks
        if share is not None and share < LEAST_MATMUL_SHARE:
            return None
        low, full = peaks.get(policy.removeprefix("mixed_")), peaks.get("float32")
        if low is not None and full is not None and low < LEAST_PEAK_RATIO * full:
            return None
        return {"policy": policy}

    def resolve(self, probe: Probe) -> MixedPrecision:
        """Choose the policy by the hardware.

        :raises PluginRefused: for float16 without a GPU, unless `force` is set.
        """
        return attrs.evolve(self, policy=self._policy(probe.machine))

    @hookimpl(wrapper=True)
    def configure_precision(self, run: RunContext) -> ValueHook[PrecisionPolicy]:
        """Set the policy; float32 leaves it as it was."""
        before = yield
        policy = self._policy(run.machine)
        if policy == "float32":
            return before
        return attrs.evolve(
            before,
            policy=policy,
            loss_scale=self.loss_scale if policy == "mixed_float16" else None,
            float32_layers=(*before.float32_layers, *self.float32_layers),
        )

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back in what dtype each layer computes."""
        policy = self._policy(run.machine)
        if policy == "float32":
            chosen, reason = choose_policy(run.machine)
            if chosen != "float32":
                reason = "the setting policy asks for float32"
            return Effect.not_applied(f"float32: {reason}")
        dtype = policy.removeprefix("mixed_")
        missing = why_without("nested-layers")
        if missing:
            return Effect.applied_as(f"the dtype policy is {policy}; {missing}")
        layers = list(layers_with_weights(model))
        low = [layer for layer in layers if layer.compute_dtype == dtype]
        full = [f'"{layer.name}"' for layer in layers if layer.compute_dtype != dtype]
        if not low:
            pinned = full[0] if full else "the model"
            return Effect.not_applied(
                f"no layer with weights computes in {dtype}: {pinned} keeps float32"
            )
        parts = [f"{len(low)} of {len(layers)} layers with weights compute in {dtype}"]
        if full:
            parts.append("in float32: " + ", ".join(full[:5]) + (", ..." if full[5:] else ""))
        if policy == "mixed_float16":
            parts.append(_loss_scale(model.optimizer))
        if not run.machine.gpus and not run.machine.has_bfloat16_cpu:
            parts.append(f"this CPU has no native {dtype} and emulates it")
        return Effect.applied_as("; ".join(parts))

    def _policy(self, machine: Machine) -> Policy:
        """The policy with "auto" replaced. :raises PluginRefused: see `resolve`."""
        policy = choose_policy(machine)[0] if self.policy == "auto" else self.policy
        if policy == "mixed_float16" and not machine.gpus and not self.force:
            raise PluginRefused(
                "float16 without a GPU is several times slower than float32; take policy = "
                '"auto", or set force = true'
            )
        return policy


def layers_with_weights(model: Any) -> Iterator[Any]:
    """The innermost layers that hold weights."""
    for layer in nested_layers(model):
        parts = list(layer._flatten_layers(recursive=False, include_self=False))
        if layer.weights and not any(part.weights for part in parts):
            yield layer


def _loss_scale(optimizer: Any) -> str:
    import keras

    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return f"dynamic loss scale, now {float(optimizer.dynamic_scale.numpy()):g}"
    factor = optimizer.loss_scale_factor
    return "no loss scale" if factor is None else f"loss scale {factor:g}"
