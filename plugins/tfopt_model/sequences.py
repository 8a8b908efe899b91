"""Run a recurrent layer over a whole sequence, with masks, as Keras' loop over steps does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tfopt_core.toolkit import tf


@attrs.frozen
class Weights:
    """The weights of a recurrent layer with the gates in Keras' order.

    :param kernel: (features, gates * units).
    :param recurrent: (units, gates * units).
    :param bias: as Keras has it, None for zeros.
    """

    kernel: Any
    recurrent: Any
    bias: Any = None


# Given inputs of (steps, batch, features), how many of the steps to compute (None for all), states
# and weights, returns the states after each step, the hidden one first, each (steps, batch, units);
# of steps that are not computed nothing is read.
Compute = Callable[[Any, Any, Sequence[Any], Weights], Sequence[Any]]


def run_sequence(
    compute: Compute,
    inputs: Any,
    mask: Any,
    states: Sequence[Any],
    weights: Weights,
    *,
    return_sequences: bool,
    zero_output_for_mask: bool,
) -> tuple[Any, Any, list[Any]]:
    """Return the last output, the outputs and the last states, as Keras' loop over steps does.

    A masked step changes no state, so an example's unmasked steps are moved to the front, in their
    order, and the outputs back to their places.

    :param compute: what computes the states after each step.
    :param inputs: (batch, steps, features), float32.
    :param mask: (batch, steps), False for steps to skip; None for no mask.
    :param states: those before the first step, the hidden one first, each (batch, units).
    :param return_sequences: whether the outputs hold all steps, or the last one only.
    :param zero_output_for_mask: whether the output of a masked step is zero; else it is the one of
        the step before, and zero before the first unmasked step.
    """
    if mask is None:
        computed = compute(tf.transpose(inputs, [1, 0, 2]), None, states, weights)
        last_states = [state[-1] for state in computed]
        last = last_states[0]
        outputs = tf.transpose(computed[0], [1, 0, 2]) if return_sequences else last[:, None]
        return last, outputs, last_states

    counts = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    moved = tf.transpose(_unmasked_first(inputs, mask), [1, 0, 2])
    # at least one step, for gathers that find nothing in no steps
    computed = compute(moved, tf.maximum(tf.reduce_max(counts), 1), states, weights)
    rows = tf.range(tf.shape(inputs)[0])

    def after(state: Any, numbers: Any, before: Any) -> Any:
        """Return the state after this many steps of each example; `before` after none."""
        places = tf.stack(
            [tf.maximum(numbers - 1, 0), tf.broadcast_to(rows, tf.shape(numbers))], -1
        )
        return tf.where(numbers[..., None] > 0, tf.gather_nd(state, places), before)

    shown = mask if return_sequences else mask[:, -1:]
    numbers = tf.cumsum(tf.cast(mask, tf.int32), axis=1) if return_sequences else counts[:, None]
    outputs = tf.transpose(after(computed[0], tf.transpose(numbers), 0.0), [1, 0, 2])
    if zero_output_for_mask:
        outputs = tf.where(shown[..., None], outputs, 0.0)
    last_states = [
        after(state, counts, before) for state, before in zip(computed, states, strict=True)
    ]
    return outputs[:, -1], outputs, last_states


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


def _unmasked_first(inputs: Any, mask: Any) -> Any:
    """Return the inputs with each example's unmasked steps first, in their order."""
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
