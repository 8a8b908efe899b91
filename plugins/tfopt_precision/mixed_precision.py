"""Mixed precision: layers compute in 16 bits, variables stay in float32."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape
from typing import Any, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    Plugin,
    PluginRefused,
    PrecisionPolicy,
    Probe,
    RunContext,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import keras, nested_layers, overflow_steps, tf, why_without
from tfopt_precision.layer_probe import ProbedLayers, probe_layers

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


# A model that reaches less of the matrix-product peak computes little that 16 bits make faster.
LEAST_MATMUL_SHARE = 0.02
# Where the machine's own products gain less, a model's casts eat it up.
LEAST_PEAK_RATIO = 1.1


def _positive_or_dynamic(_: Any, __: Any, value: Any) -> None:
    if value != "dynamic" and not value > 0:
        raise ValueError(f'loss_scale must be above 0 or "dynamic", got {value}')


def _auto_or_tuple(names: Any) -> Any:
    return names if isinstance(names, str) else tuple(names)


def _auto_or_names(_: Any, __: Any, value: Any) -> None:
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'float32_layers must be "auto" or an array of names, got "{value}"')


@plugin
class MixedPrecision(Plugin):
    """Computes in 16 bits what may be, and keeps variables and outputs in float32.

    What it does: sets Keras' dtype policy to mixed_bfloat16 or mixed_float16. Output layers stay
    in float32, and so do layers named by float32_layers and float32_types, with those within them.
    float32_layers = "auto" compares the gradients of a batch with each layer alone in 16 bits, and
    keeps those that fail or whose error is out of line: above 20% and five times the median. With
    scope = "layers" the model is built in float32 and its layers change when training starts, for
    scripts that compute eagerly before. float16 gets loss scaling, in a custom train_step too.

    Why it helps: tensor cores, and CPUs with native bfloat16, multiply 16-bit numbers several
    times faster; activations take half of the memory.

    When it does not: without such hardware it is slower, float16 on a CPU many times. A GPU
    of compute capability 8.0 or later multiplies float32 as TensorFloat-32 already, which leaves
    less to gain. Small models that wait for their input or for Python gain nothing. Depthwise
    convolutions may lose in float16: float32_types = ["DepthwiseConv2D"]. A fixed loss scale skips
    no step that overflows.

    Mixes with: xla, large batches. Loss scaling for a custom train_step needs one optimizer, and
    one replica unless the step calls optimizer.scale_loss. A training loop without fit needs
    scope = "global".

    Reference: Micikevicius et al., Mixed Precision Training, https://arxiv.org/abs/1710.03740
    """

    targets = ("compute", "memory")
    policy: Policy = setting(
        default="auto",
        help="Keras' dtype policy; auto takes what the hardware computes natively.",
    )
    loss_scale: Literal["dynamic"] | float = setting(
        default="dynamic",
        validator=_positive_or_dynamic,
        help="Factor on the loss for float16: dynamic, or a fixed number above 0.",
    )
    force: bool = setting(
        default=False,
        help="Whether float16 is allowed without a GPU, where it is very slow.",
    )
    float32_layers: Literal["auto"] | tuple[str, ...] = setting(
        default=(),
        converter=_auto_or_tuple,
        validator=_auto_or_names,
        help="Names of layers that stay in float32, shell patterns allowed; auto: a probe.",
    )
    float32_types: tuple[str, ...] = setting(
        default=(),
        converter=tuple,
        help="Classes of layers that stay in float32; shell patterns are allowed.",
    )
    scope: Literal["global", "layers"] = setting(
        default="global",
        help="Whether the model is built in the policy, or its layers get it after.",
    )

    def equivalence(self) -> Literal["exact", "rounding"]:
        """The same algorithm in other precision, where the hardware has one that is faster."""
        return "exact" if self.policy == "float32" else "rounding"

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
        if diagnosis.own_loop:
            # nothing scales the loss of float16, and there is no fit to set the layers at
            return {"policy": policy} if policy == "mixed_bfloat16" else None
        # a script may compute before `fit`, and its layers may not all work in 16 bits
        return {"policy": policy, "scope": "layers", "float32_layers": "auto"}

    def resolve(self, probe: Probe) -> MixedPrecision:
        """Choose the policy by the hardware, and the layers that stay in float32 by a probe.

        :raises PluginRefused: for float16 without a GPU, unless `force` is set.
        """
        chosen = attrs.evolve(self, policy=self._policy(probe.machine))
        if probe.machine.gpus:
            tf32_enabled = tf.config.experimental.tensor_float_32_execution_enabled()
            probe.note(formats_of_gpu(probe.machine, tf32_enabled))
        if self.float32_layers != "auto":
            return chosen
        if chosen.policy == "float32":
            return attrs.evolve(chosen, float32_layers=())
        training = probe.training(attrs.evolve(chosen, float32_layers=()))
        found = probe_layers(training.model, training.train_step, training.batch, chosen.policy)
        for reason in reasons(found):
            probe.note(reason)
        if found.refused:
            return attrs.evolve(chosen, policy="float32", float32_layers=())
        return attrs.evolve(chosen, float32_layers=tuple(map(escape, found.kept)))

    @hookimpl
    def configure_precision(self, run: RunContext, policy: PrecisionPolicy) -> PrecisionPolicy:
        """Set the policy; float32 leaves it as it was."""
        chosen = self._policy(run.machine)
        if chosen == "float32":
            return policy
        return attrs.evolve(
            policy,
            policy=chosen,
            scope=self.scope,
            loss_scale=self.loss_scale if chosen == "mixed_float16" else None,
            # before the probe none is known
            float32_layers=(
                *policy.float32_layers,
                *(() if self.float32_layers == "auto" else self.float32_layers),
            ),
            float32_types=(*policy.float32_types, *self.float32_types),
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

    def by_hand(self) -> str:
        """The same in plain code."""
        policy = "mixed_bfloat16" if self.policy == "auto" else self.policy
        if policy == "float32":
            return "# nothing: this hardware computes nothing faster than float32"
        lines = [f'keras.config.set_dtype_policy("{policy}")  # before the model is built']
        names = () if self.float32_layers == "auto" else self.float32_layers
        kept = ", ".join(("the output layers", *names, *self.float32_types))
        lines.append(f'# with dtype="float32": {kept}')
        if policy == "mixed_float16" and self.loss_scale != "dynamic":
            lines.append(f"optimizer.loss_scale_factor = {self.loss_scale}")
            lines.append("model.compile(optimizer, loss, auto_scale_loss=False)")
        return "\n".join(lines)


def layers_with_weights(model: Any) -> Iterator[Any]:
    """The innermost layers that hold weights."""
    for layer in nested_layers(model):
        parts = list(layer._flatten_layers(recursive=False, include_self=False))
        if layer.weights and not any(part.weights for part in parts):
            yield layer


def reasons(found: ProbedLayers) -> list[str]:
    """Return what a probe found in sentences without a full stop."""
    said = [f'layer "{name}" stays in float32: {why}' for name, why in found.kept.items()]
    if found.refused:
        return [*said, f"nothing is computed in 16 bits: {found.refused}"]
    if found.left_out:
        said.append(f"{found.left_out} layers were not looked at alone: the time was used up")
    if found.together is not None:
        rest = "the other layers" if said else f"all of {len(found.errors)} layers"
        said.append(f"{rest} together put the gradients of a batch off by {found.together:.1%}")
    return said


def _loss_scale(optimizer: Any) -> str:
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        factor = optimizer.loss_scale_factor
        return "no loss scale" if factor is None else f"loss scale {factor:g}"
    scale = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
    said = f"dynamic loss scale, now {float(keras.ops.convert_to_numpy(scale)):g}"
    skipped = overflow_steps(optimizer)
    if skipped is None:
        return said
    return f"{said}; {skipped} {'step' if skipped == 1 else 'steps'} skipped by overflow"
