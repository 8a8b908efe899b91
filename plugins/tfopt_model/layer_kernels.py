"""Attention, layer normalization and gelu, each with a gradient of few operations."""

from __future__ import annotations

import math
from typing import Any

from tfopt_core.toolkit import tf
from tfopt_model.fused_layers import once

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


def causal_mask(queries: Any, keys: Any) -> Any:
    """Return a mask (queries, keys) in which each query sees the keys up to its own place."""
    return tf.linalg.band_part(tf.ones((queries, keys), tf.bool), -1, 0)


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
