"""Fused recurrent: LSTM layers computed by one kernel for a whole sequence."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    PlainCode,
    PluginRefused,
    RunContext,
    TrainingOptions,
    ValueHook,
    hookimpl,
    nested_layers,
    why_without,
)
from tfopt_model import fused_layers
from tfopt_model.fused_layers import FusedLayers, compiling_plugin, listed
from tfopt_model.lstm_kernel import Weights, run_sequence


def recurrent_layers(model: Any) -> list[Any]:
    """Return all layers of a model that run a cell over steps, each once."""
    import keras

    layers = [model, *nested_layers(model)]
    return list(
        {id(layer): layer for layer in layers if isinstance(layer, keras.layers.RNN)}.values()
    )


def why_not_fused(layer: Any) -> str:
    """Return why the kernel cannot compute this recurrent layer, "" if it can."""
    import keras
    from keras import activations

    cell = layer.cell
    if type(cell) is not keras.layers.LSTMCell:
        return f"its cell is a {type(cell).__name__}, and the kernel computes an LSTMCell"
    if type(layer).inner_loop not in (keras.layers.LSTM.inner_loop, keras.layers.RNN.inner_loop):
        return "its class has an inner_loop of its own"
    if cell.activation is not activations.tanh:
        return f"its activation is {_name(cell.activation)}, and the kernel's tanh"
    if cell.recurrent_activation is not activations.sigmoid:
        return (
            f"its recurrent_activation is {_name(cell.recurrent_activation)}, and the kernel's "
            "sigmoid"
        )
    if cell.recurrent_dropout:
        return "it drops out recurrent states"
    if cell.dropout and cell.implementation == 1:
        return "with implementation=1 it drops out other inputs for each gate"
    if layer.unroll:
        return "it is unrolled"
    return fused_layers.why_not_free(layer, "inner_loop")


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _why_not_traced(layer: Any, args: Any, kwargs: Any) -> str:
    """Return why the layer runs this loop itself, "" if it does not."""
    sequences = args[0] if args else kwargs["sequences"]
    if layer.compute_dtype != "float32" or sequences.dtype != "float32":
        return f"it computes in {layer.compute_dtype}, the kernel in float32"
    return ""


def fuse(layer: Any, fused: FusedLayers) -> None:
    """Replace the loop over steps of a layer by the kernel."""
    fused.replace(layer, "inner_loop", _computed, _why_not_traced)


def release(model: Any) -> None:
    """Give all layers of a model their own loop over steps back."""
    for layer in recurrent_layers(model):
        fused_layers.release(layer, "inner_loop")


def _computed(
    layer: Any, own: Any, sequences: Any, initial_state: Any, mask: Any, training: Any = False
) -> Any:
    """Return what the layer's own `inner_loop` returns, computed by the kernel."""
    import tensorflow as tf
    from keras import ops

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
        sequences,
        mask,
        tuple(initial_state),
        Weights(*(ops.convert_to_tensor(weight) for weight in given)),
        return_sequences=layer.return_sequences,
        zero_output_for_mask=layer.zero_output_for_mask,
    )


def why_not_here(machine: Machine, options: TrainingOptions) -> str:
    """Return why the kernel is not used on this machine or for this training, "" if it is."""
    if machine.gpus:
        return "on a GPU Keras has cuDNN compute these layers"
    if options.jit_compile is True:
        return "the workload compiles its steps by XLA, which has no such kernel"
    return ""


@attrs.frozen(kw_only=True, eq=False)
class FusedRecurrent:
    """Computes LSTM layers on a CPU by TensorFlow's kernel for a whole sequence.

    What it does: replaces the loop over steps of each LSTM layer (stacked, bidirectional,
    backwards, with states or masks, in training and validation) by the operation BlockLSTM and its
    gradient. Layers, weights and the saved model stay as they are.

    Why it helps: Keras' loop starts some twenty small kernels for each step of the sequence, and
    twice as many for the gradient. The kernel starts once, and needs no compilation.

    When it does not: for wide layers, whose matrix products take the time; on a GPU, where Keras
    has cuDNN; in bfloat16 or float16, which this kernel does not compute: a layer that computes in
    them is left alone. So are layers with other activations than tanh and sigmoid, with recurrent
    dropout, unrolled ones, and other cells, each by name. Sums are taken in another order, so that
    losses are equal to rounding.

    Mixes with: resident and chunked with xla = false, which add that no step is started from
    Python; threads. Not with XLA, which cannot compile the kernel.

    Reference: https://www.tensorflow.org/api_docs/python/tf/raw_ops/BlockLSTM
    """

    targets: ClassVar[tuple[str, ...]] = ("compute", "dispatch")
    conflicts: ClassVar[tuple[str, ...]] = ("xla",)

    def math(self) -> Literal["rounding"]:
        """Gradients are summed over the steps in another order."""
        return "rounding"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it for LSTM layers on a CPU in float32."""
        if diagnosis.machine.gpus or diagnosis.policy != "float32" or diagnosis.jit_compile:
            return None
        return {} if {"LSTM", "LSTMCell"} & set(diagnosis.layers) else None

    @hookimpl(wrapper=True)
    def wrap_model(self, run: RunContext) -> ValueHook[Any]:
        """Replace the loops of the layers that the kernel computes."""
        model = yield
        fused = run.state_of(self)["fused"] = FusedLayers()
        missing = why_without("nested-layers")
        if missing:
            run.state_of(self)["reason"] = missing
            return model
        for layer in recurrent_layers(model):
            reason = why_not_fused(layer)
            if reason:
                fused.reasons[layer.name] = reason
            else:
                fuse(layer, fused)
        return model

    @hookimpl(wrapper=True)
    def configure_training(self, run: RunContext, model: Any) -> ValueHook[TrainingOptions]:
        """Refuse a stack that has XLA compile the steps; leave a workload alone that does."""
        options = yield
        compiling = compiling_plugin(run.settings)
        if compiling:
            raise PluginRefused(
                f'"{compiling}" has XLA compile the steps, and XLA has no kernel for a whole '
                f'sequence; set xla = false in "{compiling}", or leave one of the two out'
            )
        reason = why_not_here(run.machine, options)
        if reason:
            run.state_of(self)["reason"] = reason
            release(model)
        return options

    def unwrap(self, model: Any) -> Any:
        """Return the model with the layers' own loops."""
        if not why_without("nested-layers"):
            release(model)
        return model

    def export(self, code: PlainCode) -> None:
        """Plain code would have to hold the kernel, its masks and the layers that it suits."""
        code.no_plain_form("the loops within layers are replaced")

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back which layers were traced with the kernel."""
        fused: FusedLayers = run.state_of(self)["fused"]
        reason = run.state_of(self).get("reason", "")
        if reason:
            return Effect.not_applied(reason)
        left = fused.left_alone
        traced = [layer.name for layer in fused.computed]
        if not traced:
            return Effect.not_applied(left or "the model has no recurrent layer that was traced")
        what = "layer" if len(traced) == 1 else "layers"
        names = listed([f'"{name}"' for name in traced], ", ")
        beside = f"; left alone: {left}" if left else ""
        return Effect.applied_as(f"BlockLSTM computes {len(traced)} {what}: {names}{beside}")
