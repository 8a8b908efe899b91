"""Fused recurrent: LSTM and GRU layers computed with less work a step than by Keras' loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfopt_core.plugins import plugin
from tfopt_core.toolkit import keras, nested_layers, tf
from tfopt_model.fused_layers import FusedLayers, FusingPlugin, listed, why_not_free
from tfopt_model.recurrent_kernels import gru, lstm


def recurrent_layers(model: Any) -> list[Any]:
    """Return all layers of a model that run a cell over steps."""
    layers = [model, *nested_layers(model)]
    return [layer for layer in layers if isinstance(layer, keras.layers.RNN)]


def _ways() -> dict[type, tuple[str, Callable[..., Any]]]:
    """Return what computes a cell over a whole sequence, and its name for a message."""
    cells = keras.layers
    return {cells.LSTMCell: ("BlockLSTM", lstm), cells.GRUCell: ("a shorter loop", gru)}


def why_not_fused(layer: Any) -> str:
    """Return why this recurrent layer is not computed here, "" if it is."""
    cell, layers = layer.cell, keras.layers
    if type(cell) not in _ways():
        return f"its cell is a {type(cell).__name__}, and LSTMCell and GRUCell are computed"
    known = (layers.LSTM, layers.GRU, layers.RNN)
    if type(layer).inner_loop not in [one.inner_loop for one in known]:
        return "its class has an inner_loop of its own"
    if cell.activation is not keras.activations.tanh:
        return f"its activation is {_name(cell.activation)}, and tanh is computed"
    if cell.recurrent_activation is not keras.activations.sigmoid:
        return (
            f"its recurrent_activation is {_name(cell.recurrent_activation)}, and sigmoid is "
            "computed"
        )
    if not getattr(cell, "reset_after", True):
        return "with reset_after=False it needs two products of the state in each step"
    if cell.recurrent_dropout:
        return "it drops out recurrent states"
    if cell.dropout and cell.implementation == 1:
        return "with implementation=1 it drops out other inputs for each gate"
    if layer.unroll:
        return "it is unrolled"
    return why_not_free(layer, "inner_loop")


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _why_not_traced(layer: Any, args: Any, kwargs: Any) -> str:
    """Return why the layer runs this loop itself, "" if it does not."""
    sequences = args[0] if args else kwargs["sequences"]
    if layer.compute_dtype != "float32" or sequences.dtype != "float32":
        return f"it computes in {layer.compute_dtype}, and only float32 is reached"
    return ""


def fuse(layer: Any, fused: FusedLayers) -> str:
    """Replace the loop over steps of a layer. Return why it is left alone, "" if it is not."""
    reason = why_not_fused(layer)
    if not reason:
        fused.replace(layer, "inner_loop", _computed, _why_not_traced)
    return reason


def _computed(
    layer: Any, own: Any, sequences: Any, initial_state: Any, mask: Any, training: Any = False
) -> Any:
    """Return what the layer's own `inner_loop` returns, computed here."""
    cell = layer.cell
    if isinstance(mask, list | tuple):
        mask = mask[0]
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        mask = mask[..., 0] if mask.shape.rank == 3 else mask
    if training and cell.dropout:
        # one mask for all steps, as the cell itself applies it
        sequences = sequences * cell.get_dropout_mask(sequences[:, 0, :])[:, None]
    if layer.go_backwards:
        sequences = tf.reverse(sequences, [1])
        mask = None if mask is None else tf.reverse(mask, [1])
    given = [cell.kernel, cell.recurrent_kernel, cell.bias if cell.use_bias else None]
    weights = [None if one is None else keras.ops.convert_to_tensor(one) for one in given]
    compute = _ways()[type(cell)][1]
    return run_sequence(
        layer, lambda *steps: compute(*steps, *weights), sequences, mask, tuple(initial_state)
    )


def run_sequence(
    layer: Any, compute: Callable[..., Sequence[Any]], inputs: Any, mask: Any, states: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the last output, the outputs and the last states, as Keras' loop over steps does.

    A masked step changes no state, so an example's unmasked steps are moved to the front, in their
    order, and the outputs back to their places.

    :param layer: says whether the outputs hold all steps, or the last one only (return_sequences),
        and whether the output of a masked step is zero (zero_output_for_mask); else it is the one
        of the step before, and zero before the first unmasked step.
    :param compute: given inputs of (steps, batch, features), how many of the steps to compute (None
        for all) and the states, returns the states after each step, the hidden one first, each
        (steps, batch, units); of steps that are not computed nothing is read.
    :param inputs: (batch, steps, features), float32.
    :param mask: (batch, steps), False for steps to skip; None for no mask.
    :param states: those before the first step, the hidden one first, each (batch, units).
    """
    all_steps = layer.return_sequences
    if mask is None:
        computed = compute(tf.transpose(inputs, [1, 0, 2]), None, states)
        last_states = [state[-1] for state in computed]
        last = last_states[0]
        outputs = tf.transpose(computed[0], [1, 0, 2]) if all_steps else last[:, None]
        return last, outputs, last_states

    counts = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    moved = tf.transpose(_unmasked_first(inputs, mask), [1, 0, 2])
    # at least one step, for gathers that find nothing in no steps
    computed = compute(moved, tf.maximum(tf.reduce_max(counts), 1), states)
    rows = tf.range(tf.shape(inputs)[0])

    def after(state: Any, numbers: Any, before: Any) -> Any:
        """Return the state after this many steps of each example; `before` after none."""
        places = tf.stack(
            [tf.maximum(numbers - 1, 0), tf.broadcast_to(rows, tf.shape(numbers))], -1
        )
        return tf.where(numbers[..., None] > 0, tf.gather_nd(state, places), before)

    shown = mask if all_steps else mask[:, -1:]
    numbers = tf.cumsum(tf.cast(mask, tf.int32), axis=1) if all_steps else counts[:, None]
    outputs = tf.transpose(after(computed[0], tf.transpose(numbers), 0.0), [1, 0, 2])
    if layer.zero_output_for_mask:
        outputs = tf.where(shown[..., None], outputs, 0.0)
    last_states = [
        after(state, counts, before) for state, before in zip(computed, states, strict=True)
    ]
    return outputs[:, -1], outputs, last_states


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


def _in_words(layers: list[Any]) -> str:
    done = []
    for cell, (way, _) in _ways().items():
        names = [f'"{layer.name}"' for layer in layers if type(layer.cell) is cell]
        what = "layer" if len(names) == 1 else "layers"
        if names:
            done.append(f"{way} computes {len(names)} {what}: {listed(names, ', ')}")
    return "; ".join(done)


@plugin
class FusedRecurrent(FusingPlugin):
    """Computes LSTM and GRU layers on a CPU with less work a step than Keras' loop.

    What it does: replaces the loop over steps of each LSTM and GRU layer (stacked, bidirectional,
    backwards, with states or masks, in training and validation): for an LSTM by the operation
    BlockLSTM, which runs a whole sequence, and a gradient that XLA compiles, or BlockLSTM's own
    where the number of steps is not known beforehand. For a GRU, of which TensorFlow has no such
    kernel, by a loop of what depends on the step before, with a gradient of its own. Layers,
    weights and the saved model stay as they are.

    Why it helps: Keras' loop starts some twenty small kernels for each step of the sequence, and
    twice as many for the gradient, which adds up the weights' gradients step by step. BlockLSTM and
    its gradient start once; where XLA compiles the gradient, those of the weights are one product
    for all steps. The GRU's loop starts a third of them for the gradient, and the products of
    inputs and weights are one for all steps.

    When it does not: BlockLSTM runs on one core, and Keras' loop shares its larger operations among
    all. Alone, on two cores, an LSTM of 64 units over 64 features took 1.2 times as long as with
    Keras' loop; those of 32, 256 and 1024 units took 0.74, 0.71 and 0.65 times as long. split-batch
    gives it the other cores. A GRU gains less than an LSTM: of 128 units, a step took a quarter
    less CPU time than with Keras' loop. On a GPU
    Keras has cuDNN. A layer that computes in bfloat16 or float16 is left alone. So are layers with
    other activations than tanh and sigmoid, with recurrent dropout, GRU layers with
    reset_after=False, unrolled ones, and other cells, each by name. Sums are taken in another
    order, so that losses are equal to rounding.

    Mixes with: split-batch, which runs two parts of a batch on two cores; resident and chunked
    with xla = false, which add that no step is started from Python; threads. Not with XLA, which
    cannot compile BlockLSTM.

    Reference: https://www.tensorflow.org/api_docs/python/tf/raw_ops/BlockLSTM
    """

    targets = ("compute", "dispatch")
    conflicts = ("xla",)
    equivalence = "rounding"  # gradients are summed over the steps in another order

    _kinds = frozenset({"LSTM", "LSTMCell", "GRU", "GRUCell"})
    _xla = "has no kernel for a whole sequence"
    _on_gpu = "on a GPU Keras has cuDNN compute these layers"
    _compiled = "the workload compiles its steps by XLA, which compiles Keras' loop"
    _nothing = "the model has no recurrent layer that was traced"
    _layers = staticmethod(recurrent_layers)
    _fuse = staticmethod(fuse)
    _in_words = staticmethod(_in_words)

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# the loops within layers are replaced while the step is traced: only tfopt does it"
