"""Compute an LSTM over a whole sequence by one kernel of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_model.sequences import Weights


def lstm(inputs: Any, states: Sequence[Any], weights: Weights) -> tuple[Any, Any]:
    """Return the hidden and the cell states after each step, both (steps, batch, units).

    :param inputs: (steps, batch, features), float32.
    :param states: the hidden and the cell state before the first step, (batch, units).
    :param weights: the gates in Keras' order: input, forget, candidate, output.
    """
    import tensorflow as tf

    units = weights.recurrent.shape[0]
    nothing = tf.zeros([units], inputs.dtype)
    bias = tf.zeros([4 * units], inputs.dtype) if weights.bias is None else weights.bias
    # Not BlockLSTMV2: TF 2.21 registers the gradient of BlockLSTM for it, which takes the gates in
    # another order, so that all gradients are wrong. Its own BlockLSTMGradV2 gives the right ones.
    computed = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.shape(inputs, tf.int64)[0],
        x=inputs,
        h_prev=states[0],
        cs_prev=states[1],
        w=tf.concat([_reordered(weights.kernel), _reordered(weights.recurrent)], 0),
        b=_reordered(bias),
        wci=nothing,
        wcf=nothing,
        wco=nothing,
        forget_bias=0.0,  # it would be added to the forget gate's bias
        cell_clip=-1.0,  # not above zero: no clipping
        use_peephole=False,
    )
    return computed.h, computed.cs


def _reordered(weight: Any) -> Any:
    """Return a weight with the gates in the kernel's order: input, candidate, forget, output."""
    import tensorflow as tf

    first, forget, candidate, output = tf.split(weight, 4, axis=-1)
    return tf.concat([first, candidate, forget, output], axis=-1)
