"""Fused transformer: attention, layer normalization and gelu with gradients of few operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from tfopt_core.plugins import plugin
from tfopt_core.toolkit import keras, nested_layers, tf
from tfopt_model.fused_layers import FusedLayers, FusingPlugin, once, why_not_free

# What a masked score becomes: so small that its share is zero, unless the whole row is masked.
MASKED = -0.7 * 3.4028235e38


def attend(query: Any, key: Any, value: Any, scale: float, mask: Any = None) -> Any:
    """Return the values, weighted by the softmax of the scaled products of queries and keys.

    The gradient needs the sum of each row of weights times their gradients. It is taken from the
    outputs, which have fewer numbers than the weights.

    :param query: (batch, queries, heads, size), float32; `key` and `value` (batch, keys, heads, _).
    :param mask: bool, to be broadcast to (batch, heads, queries, keys), False for keys to leave
        out; None for no mask.
    """

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def attended(query: Any, key: Any, value: Any) -> Any:
        scaled = query * scale
        scores = tf.matmul(scaled, key, transpose_b=True)
        weights = tf.nn.softmax(scores if mask is None else tf.where(mask, scores, MASKED))
        outputs = tf.matmul(weights, value)

        def gradient(upstream: Any) -> Any:
            of_weights = tf.matmul(upstream, value, transpose_b=True)
            row_sums = tf.reduce_sum(upstream * outputs, -1, keepdims=True)
            of_scores = weights * (of_weights - row_sums)
            if mask is not None:
                of_scores = tf.where(mask, of_scores, 0.0)
            of_query = tf.matmul(of_scores, key) * scale
            of_key = tf.matmul(of_scores, scaled, transpose_a=True)
            return of_query, of_key, tf.matmul(weights, upstream, transpose_a=True)

        return outputs, once(gradient, "fused-transformer", query, key, value)

    by_head = [tf.transpose(part, [0, 2, 1, 3]) for part in (query, key, value)]
    return tf.transpose(attended(*by_head), [0, 2, 1, 3])


def normalize(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Return the inputs normalized along their last axis, times `gamma` plus `beta`.

    All sums are products of matrices, which on a CPU are several times as fast as reductions.

    :param inputs: float32, with a last axis of known size.
    :param gamma: (size,), and `beta` (size,).
    """
    size = inputs.shape[-1]

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def normalized(rows: Any, gamma: Any, beta: Any) -> Any:
        mean_of = tf.fill([size, 1], 1.0 / size)
        centred = rows - tf.matmul(rows, mean_of)
        inverse = tf.math.rsqrt(tf.matmul(tf.square(centred), mean_of) + epsilon)
        normal = centred * inverse

        def gradient(upstream: Any) -> Any:
            both = upstream * normal
            sum_of = tf.ones([1, tf.shape(both)[0]])
            of_gamma, of_beta = tf.matmul(sum_of, both), tf.matmul(sum_of, upstream)
            mean_scaled = tf.reshape(gamma, [size, 1]) / size
            means = tf.matmul(upstream, mean_scaled), tf.matmul(both, mean_scaled)
            of_rows = inverse * (upstream * gamma - means[0] - normal * means[1])
            return of_rows, tf.reshape(of_gamma, [size]), tf.reshape(of_beta, [size])

        return normal * gamma + beta, once(gradient, "fused-transformer", rows, gamma, beta)

    outputs = normalized(tf.reshape(inputs, [-1, size]), gamma, beta)
    outputs = tf.reshape(outputs, tf.shape(inputs))
    outputs.set_shape(inputs.shape)
    return outputs


def gelu(inputs: Any) -> Any:
    """Return x * Phi(x), where Phi is the normal distribution, as Keras' gelu without its
    approximation. The gradient uses the Phi(x) that was computed."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def activated(inputs: Any) -> Any:
        below = 0.5 * (1.0 + tf.math.erf(inputs * math.sqrt(0.5)))

        def gradient(upstream: Any) -> Any:
            density = tf.exp(-0.5 * tf.square(inputs)) / math.sqrt(2 * math.pi)
            return upstream * (below + inputs * density)

        return inputs * below, once(gradient, "fused-transformer", inputs)

    return activated(inputs)


def fusible_layers(model: Any) -> list[Any]:
    """Return the layers of a model of these kinds: attention, layer normalization, and
    dense layers and activations whose function is gelu."""
    kinds = keras.layers
    return [
        layer
        for layer in nested_layers(model)
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
    return why_not_free(layer, _COMPUTED[kind.__name__][0])


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
        # each query sees the keys up to its own place
        everything = tf.ones((tf.shape(query)[1], tf.shape(key)[1]), tf.bool)
        causal = tf.linalg.band_part(everything, -1, 0)
        mask = causal if mask is None else tf.logical_and(mask, causal)
    return attend(query, key, value, 1 / math.sqrt(layer.key_dim), mask), None


def _normalization(layer: Any, own: Any, inputs: Any) -> Any:
    gamma, beta = (tf.convert_to_tensor(weight) for weight in (layer.gamma, layer.beta))
    return normalize(inputs, gamma, beta, layer.epsilon)


def _with_gelu(layer: Any, own: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what the layer's own call returns, which is traced with the other gelu.

    The layer has its own activation again before anything can save it.
    """
    activation = layer.activation
    layer.activation = gelu
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


def fuse(layer: Any, fused: FusedLayers) -> str:
    """Replace what a layer computes by the faster operations. Return why it is left alone, "" if it
    is not."""
    reason = why_not_fused(layer)
    if not reason:
        method, compute = _COMPUTED[type(layer).__name__]
        fused.replace(layer, method, compute, _why_not_traced)
    return reason


def _in_words(layers: list[Any]) -> str:
    counts = Counter(type(layer).__name__ for layer in layers)
    what = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"computes {what}" if what else ""


@plugin
class FusedTransformer(FusingPlugin):
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

    _kinds = frozenset({"MultiHeadAttention", "LayerNormalization"})
    _xla = "fuses these operations itself"
    _on_gpu = "on a GPU other operations are the faster ones"
    _compiled = "the workload has XLA compile the steps, which fuses these operations itself"
    _nothing = "the model has no attention, layer normalization or gelu that was traced"
    _needs = ("nested-layers", "attention")
    _layers = staticmethod(fusible_layers)
    _fuse = staticmethod(fuse)
    _in_words = staticmethod(_in_words)

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# what layers compute is replaced while the step is traced: only tfopt does it"
