"""Fused recurrent: LSTM and GRU layers computed with less work a step than by Keras' loop."""

from __future__ import annotations

from typing import Any

from tfopt_core.plugins import Machine, plugin
from tfopt_core.toolkit import keras, nested_layers, tf
from tfopt_model.fused_layers import FusedLayers, FusingPlugin, listed, why_not_free
from tfopt_model.recurrent_kernels import gru, lstm
from tfopt_model.sequences import Compute, Weights, run_sequence


def recurrent_layers(model: Any) -> list[Any]:
    """Return all layers of a model that run a cell over steps, each once."""
    layers = [model, *nested_layers(model)]
    return list(
        {id(layer): layer for layer in layers if isinstance(layer, keras.layers.RNN)}.values()
    )


def _ways() -> dict[type, tuple[str, Compute]]:
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
    given = (cell.kernel, cell.recurrent_kernel, *((cell.bias,) if cell.use_bias else ()))
    return run_sequence(
        _ways()[type(cell)][1],
        sequences,
        mask,
        tuple(initial_state),
        Weights(*(keras.ops.convert_to_tensor(weight) for weight in given)),
        return_sequences=layer.return_sequences,
        zero_output_for_mask=layer.zero_output_for_mask,
    )


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
    _compiled = "the workload compiles its steps by XLA, which compiles Keras' loop"
    _nothing = "the model has no recurrent layer that was traced"

    def _why_not_here(self, machine: Machine) -> str:
        return "on a GPU Keras has cuDNN compute these layers" if machine.gpus else ""

    def _layers(self, model: Any) -> list[Any]:
        return recurrent_layers(model)

    def _fuse(self, layer: Any, fused: FusedLayers) -> str:
        return fuse(layer, fused)

    def _in_words(self, layers: list[Any]) -> str:
        done = []
        for cell, (way, _) in _ways().items():
            names = [f'"{layer.name}"' for layer in layers if type(layer.cell) is cell]
            what = "layer" if len(names) == 1 else "layers"
            if names:
                done.append(f"{way} computes {len(names)} {what}: {listed(names, ', ')}")
        return "; ".join(done)

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# the loops within layers are replaced while the step is traced: only tfopt does it"
