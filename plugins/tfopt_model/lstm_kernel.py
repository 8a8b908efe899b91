"""Compute an LSTM over a whole sequence by one kernel of TensorFlow, masks included."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class Weights:
    """The weights of an LSTM with the gates in Keras' order: input, forget, candidate, output.

    :param kernel: (features, 4 * units).
    :param recurrent: (units, 4 * units).
    :param bias: (4 * units,), None for zeros.
    """

    kernel: Any
    recurrent: Any
    bias: Any = None


def lstm(
    inputs: Any, states: tuple[Any, Any], weights: Weights, seq_len: Any = None
) -> tuple[Any, Any]:
    """Return the hidden and the cell states after each step, both (steps, batch, units).

    :param inputs: (steps, batch, features), float32.
    :param states: the hidden and the cell state before the first step, (batch, units).
    :param seq_len: the steps to compute, None for all; the states behind them are zeros.
    """
    import tensorflow as tf

    units = weights.recurrent.shape[0]
    nothing = tf.zeros([units], inputs.dtype)
    bias = tf.zeros([4 * units], inputs.dtype) if weights.bias is None else weights.bias
    steps = tf.shape(inputs, tf.int64)[0] if seq_len is None else tf.cast(seq_len, tf.int64)
    # Not BlockLSTMV2: TF 2.21 registers the gradient of BlockLSTM for it, which takes the gates in
    # another order, so that all gradients are wrong. Its own BlockLSTMGradV2 gives the right ones.
    computed = tf.raw_ops.BlockLSTM(
        seq_len_max=steps,
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


def run_sequence(
    inputs: Any,
    mask: Any,
    states: tuple[Any, Any],
    weights: Weights,
    *,
    return_sequences: bool,
    zero_output_for_mask: bool,
) -> tuple[Any, Any, list[Any]]:
    """Return the last output, the outputs and the last states, as Keras' loop over steps does.

    A masked step changes no state, so an example's unmasked steps are moved to the front, in their
    order, and the outputs back to their places.

    :param inputs: (batch, steps, features), float32.
    :param mask: (batch, steps), False for steps to skip; None for no mask.
    :param states: the hidden and the cell state before the first step, (batch, units).
    :param return_sequences: whether the outputs hold all steps, or the last one only.
    :param zero_output_for_mask: whether the output of a masked step is zero; else it is the one of
        the step before, and zero before the first unmasked step.
    """
    import tensorflow as tf

    if mask is None:
        hidden, cell = lstm(tf.transpose(inputs, [1, 0, 2]), states, weights)
        last = hidden[-1]
        outputs = tf.transpose(hidden, [1, 0, 2]) if return_sequences else last[:, None]
        return last, outputs, [last, cell[-1]]

    counts = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    moved = tf.transpose(_unmasked_first(inputs, mask), [1, 0, 2])
    hidden, cell = lstm(moved, states, weights, tf.reduce_max(counts))
    rows = tf.range(tf.shape(inputs)[0])

    def after(computed: Any, numbers: Any, before: Any) -> Any:
        """Return what was computed after this many steps of each example; `before` after none."""
        places = tf.stack(
            [tf.maximum(numbers - 1, 0), tf.broadcast_to(rows, tf.shape(numbers))], -1
        )
        return tf.where(numbers[..., None] > 0, tf.gather_nd(computed, places), before)

    shown = mask if return_sequences else mask[:, -1:]
    numbers = tf.cumsum(tf.cast(mask, tf.int32), axis=1) if return_sequences else counts[:, None]
    outputs = tf.transpose(after(hidden, tf.transpose(numbers), 0.0), [1, 0, 2])
    if zero_output_for_mask:
        outputs = tf.where(shown[..., None], outputs, 0.0)
    last_states = [after(hidden, counts, states[0]), after(cell, counts, states[1])]
    return outputs[:, -1], outputs, last_states


def _unmasked_first(inputs: Any, mask: Any) -> Any:
    """Return the inputs with each example's unmasked steps first, in their order."""
    import tensorflow as tf

    steps = tf.shape(mask)[1]
    here = tf.range(steps)
    # all keys of a row differ, so that the order does not depend on how ties are sorted
    order = tf.argsort(tf.where(mask, here, here + steps), axis=1)
    back = tf.argsort(order, axis=1)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def moved(inputs: Any) -> Any:
        # it is a permutation, whose gradient is another gather, not a sum of scattered slices
        def gradient(upstream: Any) -> Any:
            return tf.gather(upstream, back, batch_dims=1)

        return tf.gather(inputs, order, batch_dims=1), gradient

    return moved(inputs)
