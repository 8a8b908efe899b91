"""Compute an LSTM or a GRU over a whole sequence, with gradients of their own.

For an LSTM TensorFlow has a kernel, whose registered gradient takes two thirds of a layer's time.
Here the loop over steps holds only what depends on the step behind, and the gradients of the
weights are one product for all steps. XLA compiles the loop, since it takes longer than the
registered gradient if TensorFlow starts each of its operations. XLA compiles for each shape, so the
registered gradient stays where the number of steps is unknown when the step is traced.

A GRU is a short loop of what depends on the step before. The inputs' products are one for all
steps, as are the gradients of the weights, for which Keras' loop adds up a matrix in each step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfopt_core.toolkit import tf
from tfopt_model.fused_layers import once


def scan(
    step: Callable[..., tuple[Any, Sequence[Any]]],
    inputs: Sequence[Any],
    state: Any,
    outputs: int,
    *,
    count: Any = None,
    backwards: bool = False,
) -> tuple[Any, list[Any]]:
    """Run a function for each step of a sequence. Return the last state and the outputs.

    The outputs are in the order of time, (steps, batch, _) each, and zero for steps that are not
    run.

    :param step: given the inputs of a step and the state, returns the new state and the outputs.
    :param inputs: (steps, batch, _) each.
    :param state: before the first step that is run: a tensor or a tuple of tensors, (batch, units).
    :param outputs: the number of outputs of a step.
    :param count: the number of steps to run, None for all.
    :param backwards: whether to run the last of these steps first.
    """
    steps = tf.shape(inputs[0])[0]
    count = steps if count is None else count
    # not inputs[0][place]: XLA compiles a slice for each value of `count` that its place depends on
    reading = [tf.TensorArray(one.dtype, steps).unstack(one) for one in inputs]
    arrays = [tf.TensorArray(inputs[0].dtype, steps) for _ in range(outputs)]

    def body(taken: Any, state: Any, arrays: list[Any]) -> Any:
        # counted down: a copy in reverse, by [::-1], took more than half of a training step
        place = count - 1 - taken if backwards else taken
        after, results = step(*(array.read(place) for array in reading), state)
        written = [
            array.write(place, result) for array, result in zip(arrays, results, strict=True)
        ]
        return taken + 1, after, written

    _, state, arrays = tf.while_loop(
        lambda taken, *_: taken < count, body, (0, state, arrays), maximum_iterations=steps
    )
    return state, [array.stack() for array in arrays]


def lstm(
    inputs: Any, count: Any, states: Sequence[Any], kernel: Any, recurrent: Any, bias: Any
) -> tuple[Any, Any]:
    """Return the hidden and the cell states after each step, both (steps, batch, units).

    :param inputs: (steps, batch, features), float32.
    :param count: how many steps are computed, None for all; the states after further ones are zero.
    :param states: the hidden and the cell state before the first step, (batch, units).
    :param kernel: (features, 4 * units), and `recurrent` (units, 4 * units), the gates in Keras'
        order: input, forget, candidate, output; `bias` None for zeros.
    """
    if bias is None:
        bias = tf.zeros([recurrent.shape[1]], inputs.dtype)
    given = (inputs, *states, kernel, recurrent, bias)
    # a variable within a custom gradient would have to be returned a gradient apart
    given = tuple(tf.convert_to_tensor(one) for one in given)
    # eagerly, the number of steps is known and may be another in each batch
    if inputs.shape[0] is None or tf.executing_eagerly():
        kept = _kernel(count, *given)
        return kept.h, kept.cs
    hidden, cells = _with_gradient(count, *given)
    return hidden, cells


def _kernel(
    count: Any, inputs: Any, hidden: Any, cell: Any, kernel: Any, recurrent: Any, bias: Any
) -> Any:
    """Return what BlockLSTM computes: the states and the gates after each step."""
    nothing = tf.zeros([recurrent.shape[0]], inputs.dtype)
    # Not BlockLSTMV2: TF 2.21 registers the gradient of BlockLSTM for it, which takes the gates in
    # another order, so that all gradients are wrong. Its own BlockLSTMGradV2 gives the right ones.
    return tf.raw_ops.BlockLSTM(
        seq_len_max=tf.cast(tf.shape(inputs)[0] if count is None else count, tf.int64),
        x=inputs,
        h_prev=hidden,
        cs_prev=cell,
        w=tf.concat([_reordered(kernel), _reordered(recurrent)], 0),
        b=_reordered(bias),
        wci=nothing,
        wcf=nothing,
        wco=nothing,
        forget_bias=0.0,  # it would be added to the forget gate's bias
        cell_clip=-1.0,  # not above zero: no clipping
        use_peephole=False,
    )


def _reordered(weight: Any) -> Any:
    """Return a weight with the gates in the kernel's order: input, candidate, forget, output."""
    first, forget, candidate, output = tf.split(weight, 4, axis=-1)
    return tf.concat([first, candidate, forget, output], axis=-1)


def _with_gradient(count: Any, *given: Any) -> Any:
    """Return the states after each step, with a gradient that XLA compiles.

    :param given: what `_kernel` is given beside the number of steps.
    """

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def computed(*given: Any) -> Any:
        inputs, hidden, cell, kernel, recurrent, _ = given
        kept = _kernel(count, *given)

        def gradient(of_hidden: Any, of_cells: Any) -> Any:
            # An outer tape would have the program return what a second derivative needs. XLA cannot
            # return that, and `once` refuses second derivatives.
            of_hidden = tf.ensure_shape(of_hidden, kept.h.shape)
            of_cells = tf.ensure_shape(of_cells, kept.h.shape)
            stopped = tf.nest.map_structure(
                tf.stop_gradient,
                (of_hidden, of_cells, (kept.i, kept.f, kept.ci, kept.o), kept.co, kept.cs, cell),
            )
            transposed = tf.stop_gradient(tf.transpose(recurrent))
            of_gates, of_first_hidden, of_first_cell = _compiled_backpropagation()(
                count, *stopped, transposed
            )
            rows = tf.reshape(of_gates, [-1, of_gates.shape[-1]])
            before = tf.concat([hidden[None], kept.h[:-1]], axis=0)
            of_kernel, of_recurrent = (
                tf.matmul(tf.reshape(one, [-1, one.shape[-1]]), rows, transpose_a=True)
                for one in (inputs, before)
            )
            of_inputs = tf.reshape(tf.matmul(rows, kernel, transpose_b=True), tf.shape(inputs))
            of_bias = tf.reduce_sum(rows, axis=0)
            return of_inputs, of_first_hidden, of_first_cell, of_kernel, of_recurrent, of_bias

        return (kept.h, kept.cs), once(gradient, "fused-recurrent", *given)

    return computed(*given)


@functools.cache
def _compiled_backpropagation() -> Callable[..., Any]:
    """Return `_backpropagate`, compiled by XLA; layers of the same shape share a program."""
    compiled: Callable[..., Any] = tf.function(_backpropagate, jit_compile=True, autograph=False)
    return compiled


def _backpropagate(
    count: Any, of_hidden: Any, of_cells: Any, gates: Sequence[Any], tanh_cells: Any, cells: Any,
    cell: Any, transposed: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of the gates before their activations, (steps, batch, 4 * units) in
    Keras' order, and of the hidden and the cell state before the first step.

    :param count: the number of steps that were computed, None for all; the gradients of the others
        are zero.
    :param of_hidden: the gradient of the hidden states after each step; `of_cells` of the cells'.
    :param gates: input, forget, candidate and output, after their activations.
    :param tanh_cells: tanh of the cell states after each step.
    :param cells: the cell states after each step; `cell` before the first one.
    :param transposed: the recurrent weights, (4 * units, units).
    """
    input_gate, forget_gate, candidate, output_gate = gates
    before = tf.concat([cell[None], cells[:-1]], axis=0)
    # the factors that do not depend on the loop, for all steps at once: of a cell's gradient ...
    for_input = candidate * input_gate * (1 - input_gate)
    for_forget = before * forget_gate * (1 - forget_gate)
    for_candidate = input_gate * (1 - candidate * candidate)
    # ... and of a hidden state's gradient
    for_output = tanh_cells * output_gate * (1 - output_gate)
    for_cell = output_gate * (1 - tanh_cells * tanh_cells)

    def step(*given: Any) -> tuple[Any, list[Any]]:
        forget, of_hidden, of_cell, *factors, for_output, for_cell, (hidden, cell) = given
        hidden += of_hidden
        cell += of_cell + hidden * for_cell
        of_gates = tf.concat([*(cell * factor for factor in factors), hidden * for_output], axis=1)
        return (tf.matmul(of_gates, transposed), cell * forget), [of_gates]

    inputs = [
        forget_gate, of_hidden, of_cells, for_input, for_forget, for_candidate, for_output,
        for_cell,
    ]  # fmt: skip
    zeros = tf.zeros_like(cells[0])
    (hidden, cell), (of_gates,) = scan(step, inputs, (zeros, zeros), 1, count=count, backwards=True)
    return of_gates, hidden, cell


def gru(
    inputs: Any, count: Any, states: Sequence[Any], kernel: Any, recurrent: Any, bias: Any
) -> tuple[Any]:
    """Return the states after each step that is computed, (count, batch, units).

    :param inputs: (steps, batch, features), float32.
    :param count: how many steps are computed, None for all.
    :param states: the state before the first step, (batch, units).
    :param kernel: (features, 3 * units), and `recurrent` (units, 3 * units), the gates in Keras'
        order: update, reset, candidate. The reset gate is applied behind the product of the states.
    :param bias: (2, 3 * units), that of the inputs first; None for zeros.
    """
    units = recurrent.shape[0]
    inputs = inputs if count is None else inputs[:count]
    steps, batch = tf.unstack(tf.shape(inputs)[:2])
    rows = tf.reshape(inputs, [steps * batch, inputs.shape[-1]])
    projected = tf.matmul(rows, kernel)
    of_candidate = tf.zeros([units], inputs.dtype)
    if bias is not None:
        of_inputs, of_states = tf.unstack(bias)
        # those of the gates are added to the same sums
        projected += of_inputs + tf.concat([of_states[: 2 * units], tf.zeros_like(of_candidate)], 0)
        of_candidate = of_states[2 * units :]
    projected = tf.reshape(projected, [steps, batch, 3 * units])
    # a variable within would have to be returned a gradient apart
    return (_states(projected, states[0], tf.convert_to_tensor(recurrent), of_candidate),)


def _states(projected: Any, state: Any, recurrent: Any, bias: Any) -> Any:
    """Return the states after each step, with their gradient.

    :param projected: (steps, batch, 3 * units), the products of the inputs, with biases.
    :param bias: of the states' product for the candidate, (units,).
    """
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
