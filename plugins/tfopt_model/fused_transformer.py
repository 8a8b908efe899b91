"""Fused transformer: attention, layer normalization and gelu with gradients of few operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Plugin,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
)
from tfopt_core.toolkit import keras, nested_layers, tf, why_without
from tfopt_model import fused_layers, layer_kernels
from tfopt_model.fused_layers import FusedLayers, refuse_compiled


def fusible_layers(model: Any) -> list[Any]:
    """Return the layers of a model of these kinds, each once: attention, layer normalization, and
    dense layers and activations whose function is gelu."""
    kinds, layers = keras.layers, {id(layer): layer for layer in nested_layers(model)}
    return [
        layer
        for layer in layers.values()
        if isinstance(layer, kinds.MultiHeadAttention | kinds.LayerNormalization)
        or (
            isinstance(layer, kinds.Dense | kinds.Activation)
            and layer.activation is keras.activations.gelu
        )
    ]


def why_not_fused(layer: Any) -> str:
    """Return why the faster operations cannot compute this layer, "" if they can."""
    kind = type(layer)
    if kind.__name__ not in _COMPUTED or not kind.__module__.startswith("keras."):
        return f"its class {kind.__name__} may compute something else than its Keras layer"
    if kind.__name__ == "LayerNormalization":
        if len(_axes(layer)) != 1:
            return "it normalizes along several axes"
        if getattr(layer, "rms_scaling", False):
            return "it scales by the root mean square"
        if not (layer.center and layer.scale):
            return "it has no scale or no center"
    if kind.__name__ == "MultiHeadAttention" and layer.dropout:
        return "it drops out attention weights"
    return fused_layers.why_not_free(layer, _COMPUTED[kind.__name__][0])


def release(model: Any) -> None:
    """Give all layers of a model what they compute themselves back."""
    for layer in nested_layers(model):
        if type(layer).__name__ in _COMPUTED:
            fused_layers.release(layer, _COMPUTED[type(layer).__name__][0])


def _axes(layer: Any) -> list[int]:
    return [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)


def _why_not_traced(layer: Any, args: Any, kwargs: Any) -> str:
    """Return why the layer computes this call itself, "" if it does not."""
    kind = type(layer).__name__
    given = [*args, *kwargs.values()][: 3 if kind == "MultiHeadAttention" else 1]
    if layer.compute_dtype != "float32" or any(part.dtype != "float32" for part in given):
        return f"it computes in {layer.compute_dtype}, and the faster operations in float32"
    rank = len(given[0].shape)
    if kind == "LayerNormalization" and _axes(layer)[0] % rank != rank - 1:
        return "it normalizes along another axis than the last"
    if kind == "MultiHeadAttention":
        if any(len(part.shape) != 4 for part in given):
            return "it attends along several axes"
        if kwargs.get("return_attention_scores") or any(args[5:6]):
            return "it is asked for its attention scores"
    return ""


def _attention(
    layer: Any, own: Any, query: Any, key: Any, value: Any, attention_mask: Any = None,
    training: Any = None, return_attention_scores: bool = False, use_causal_mask: bool = False,
) -> tuple[Any, None]:  # fmt: skip
    """Return what the layer's own `_compute_attention` returns."""
    mask = attention_mask
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        mask = mask[:, None] if mask.shape.rank == 3 else mask  # the same for all heads
    if use_causal_mask:
        causal = layer_kernels.causal_mask(tf.shape(query)[1], tf.shape(key)[1])
        mask = causal if mask is None else tf.logical_and(mask, causal)
    return layer_kernels.attend(query, key, value, 1 / math.sqrt(layer.key_dim), mask), None


def _normalization(layer: Any, own: Any, inputs: Any) -> Any:
    gamma, beta = (tf.convert_to_tensor(weight) for weight in (layer.gamma, layer.beta))
    return layer_kernels.normalize(inputs, gamma, beta, layer.epsilon)


def _with_gelu(layer: Any, own: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what the layer's own call returns, which is traced with the other gelu.

    The layer has its own activation again before anything can save it.
    """
    activation = layer.activation
    layer.activation = layer_kernels.gelu
    try:
        return own(layer, *args, **kwargs)
    finally:
        layer.activation = activation


# By the class of a layer: which of its methods is replaced, and by what.
_COMPUTED: dict[str, tuple[str, Callable[..., Any]]] = {
    "MultiHeadAttention": ("_compute_attention", _attention),
    "LayerNormalization": ("call", _normalization),
    "Dense": ("call", _with_gelu),
    "Activation": ("call", _with_gelu),
}


def fuse(layer: Any, fused: FusedLayers) -> None:
    """Replace what a layer computes by the faster operations."""
    method, compute = _COMPUTED[type(layer).__name__]
    fused.replace(layer, method, compute, _why_not_traced)


@plugin
class FusedTransformer(Plugin):
    """Computes attention, layer normalization and gelu by fewer operations on a CPU.

    What it does: replaces what MultiHeadAttention, LayerNormalization, and gelu in Dense and
    Activation layers compute by the same in fewer operations, with gradients of its own: products
    of matrices in place of sums, and no weight computed twice. Layers, weights and the saved model
    stay as they are. Masks, causal ones too, are kept.

    Why it helps: TensorFlow derives these gradients operation by operation, each a pass over
    memory. With fewer, a step that is not compiled by XLA takes less time, and nothing has to be
    compiled. Whether it is faster than XLA's, which runs on one core, depends on the machine.

    When it does not: with XLA, which fuses these operations itself and takes less CPU time: a stack
    that compiles the steps refuses it. On a GPU, and where the workload itself compiles its steps,
    it is not applied. Also where other layers take the time. Layers that drop out
    attention weights, are asked for attention scores, normalize along other axes than the last,
    compute in bfloat16 or float16, or are subclasses are left alone, by name. Sums are taken in
    another order, so that losses are equal to rounding. A second derivative, as a gradient penalty
    takes it, is an error.

    Mixes with: resident and chunked with xla = false; split-batch; threads.

    Reference: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
    """

    targets = ("compute",)
    conflicts = ("xla",)
    equivalence = "rounding"  # sums are taken in another order

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it for layer normalization or attention on a CPU in float32, without XLA."""
        if diagnosis.machine.gpus or diagnosis.policy != "float32" or diagnosis.jit_compile:
            return None
        kinds = {"MultiHeadAttention", "LayerNormalization"}
        return {} if kinds & set(diagnosis.layers) else None

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Replace what the layers compute."""
        fused = run.state_of(self)["fused"] = FusedLayers()
        missing = why_without("nested-layers") or why_without("attention")
        if not missing and run.machine.gpus:
            missing = "on a GPU other operations are the faster ones"
        if missing:
            run.state_of(self)["reason"] = missing
            return model
        for layer in fusible_layers(model):
            reason = why_not_fused(layer)
            if reason:
                fused.reasons[layer.name] = reason
            else:
                fuse(layer, fused)
        return model

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Refuse a stack that has XLA compile the steps; leave a workload alone that does."""
        refuse_compiled(run.settings, "fuses these operations itself")
        if options.jit_compile is True:
            run.state_of(self)["reason"] = (
                "the workload has XLA compile the steps, which fuses these operations itself"
            )
            if not why_without("nested-layers"):
                release(model)
        return options

    def unwrap(self, model: Any) -> Any:
        """Return the model whose layers compute as Keras does."""
        if not why_without("nested-layers"):
            release(model)
        return model

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back which layers were traced with the faster operations."""
        fused: FusedLayers = run.state_of(self)["fused"]
        reason = run.state_of(self).get("reason", "")
        if reason:
            return Effect.not_applied(reason)
        left = fused.left_alone
        computed = Counter(type(layer).__name__ for layer in fused.computed)
        if not computed:
            return Effect.not_applied(
                left or "the model has no attention, layer normalization or gelu that was traced"
            )
        what = ", ".join(f"{count} {kind}" for kind, count in computed.items())
        return Effect.applied_as(f"computes {what}{f'; left alone: {left}' if left else ''}")

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# what layers compute is replaced while the step is traced: only tfopt does it"
