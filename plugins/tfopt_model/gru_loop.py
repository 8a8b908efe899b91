"""Compute a GRU over a whole sequence by a short loop, with a gradient of its own.

Only what depends on the step before stands in the loops. The inputs' products are one for all
steps, as are the gradients of the weights, for which Keras' loop adds up a matrix in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_model.gradients import once
from tfopt_model.sequences import Weights, scan


def gru(inputs: Any, count: Any, states: Sequence[Any], weights: Weights) -> tuple[Any]:
    """Return the states after each step that is computed, (count, batch, units).

    :param inputs: (steps, batch, features), float32.
    :param count: how many steps are computed, None for all.
    :param states: the state before the first step, (batch, units).
    :param weights: the gates in Keras' order: update, reset, candidate; the bias, (2, 3 * units),
        that of the inputs first. The reset gate is applied behind the product of the states.
    """
    import tensorflow as tf

    units = weights.recurrent.shape[0]
    inputs = inputs if count is None else inputs[:count]
    steps, batch = tf.unstack(tf.shape(inputs)[:2])
    rows = tf.reshape(inputs, [steps * batch, inputs.shape[-1]])
    projected = tf.matmul(rows, weights.kernel)
    bias = tf.zeros([units], inputs.dtype)
    if weights.bias is not None:
        of_inputs, of_states = tf.unstack(weights.bias)
        # those of the gates are added to the same sums
        projected += of_inputs + tf.concat([of_states[: 2 * units], tf.zeros_like(bias)], 0)
        bias = of_states[2 * units :]
    projected = tf.reshape(projected, [steps, batch, 3 * units])
    # a variable within would have to be returned a gradient apart
    recurrent = tf.convert_to_tensor(weights.recurrent)
    return (_states(projected, states[0], recurrent, bias),)


def _states(projected: Any, state: Any, recurrent: Any, bias: Any) -> Any:
    """Return the states after each step, with their gradient.

    :param projected: (steps, batch, 3 * units), the products of the inputs, with biases.
    :param bias: of the states' product for the candidate, (units,).
    """
    import tensorflow as tf

    units = recurrent.shape[0]
    gates = [2 * units, units]

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def computed(projected: Any, state: Any, recurrent: Any, bias: Any) -> Any:
        def step(given: Any, before: Any) -> tuple[Any, ...]:
            of_gates, of_candidate = tf.split(tf.matmul(before, recurrent), gates, axis=1)
            given_gates, given_candidate = tf.split(given, gates, axis=1)
            update, reset = tf.split(tf.sigmoid(given_gates + of_gates), 2, axis=1)
            of_candidate += bias
            candidate = tf.tanh(given_candidate + reset * of_candidate)
            after = candidate + update * (before - candidate)
            return after, (after, update, reset, candidate, of_candidate)

        _, kept = scan(step, [projected], state, 5)
        hidden, update, reset, candidate, of_candidate = kept
        before = tf.concat([state[None], hidden[:-1]], axis=0)

        def gradient(upstream: Any) -> Any:
            # what a state's gradient is multiplied with for that of each sum
            for_candidate = tf.raw_ops.TanhGrad(y=candidate, dy=1.0 - update)
            for_update = tf.raw_ops.SigmoidGrad(y=update, dy=before - candidate)
            for_reset = tf.raw_ops.SigmoidGrad(y=reset, dy=for_candidate * of_candidate)
            factors = tf.concat([for_update, for_reset, for_candidate * reset], axis=2)
            transposed = tf.transpose(recurrent)

            def step_back(factor: Any, kept: Any, above: Any, behind: Any) -> tuple[Any, ...]:
                behind += above
                sums = tf.concat([behind] * 3, axis=1) * factor
                return behind * kept + tf.matmul(sums, transposed), (behind, sums)

            given = [factors, update, upstream]
            first = tf.zeros_like(state)
            of_state, (behind, sums) = scan(step_back, given, first, 2, backwards=True)
            of_recurrent = tf.matmul(
                tf.reshape(before, [-1, units]),
                tf.reshape(sums, [-1, 3 * units]),
                transpose_a=True,
            )
            of_projected = tf.concat([sums[:, :, : 2 * units], behind * for_candidate], axis=2)
            of_bias = tf.reduce_sum(sums[:, :, 2 * units :], axis=[0, 1])
            return of_projected, of_state, of_recurrent, of_bias

        return hidden, once(gradient, "fused-recurrent", projected, state, recurrent, bias)

    return computed(projected, state, recurrent, bias)
