"""DropConnect: dense layers drop single weights while they train."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any, Literal

from attrs import validators

from tfopt_core.plugins import Effect, Plugin, PluginRefused, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import keras, nested_layers, why_without
from tfopt_model.dropped_weights import MIXING, drop_weights, dropping_layers, with_plain_inference


def why_not_dropped(layer: Any) -> str:
    """Return why the weights of a layer cannot be dropped, "" if they can."""
    if type(layer) is not keras.layers.Dense:
        return f"is a {type(layer).__name__}, not a Dense layer"
    if layer.quantization_mode is not None or layer.lora_enabled:
        return "is quantized or has LoRA weights"
    name = getattr(layer.activation, "__name__", type(layer.activation).__name__)
    if getattr(keras.activations, name, None) is not layer.activation:
        return f'has the activation "{name}", of which it is unknown whether it mixes units'
    if name in MIXING:
        return f'has the activation "{name}", which mixes units'
    return ""


def chosen_layers(model: Any, patterns: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    """Return the dense layers whose weights are to be dropped, and why others are not.

    :param patterns: names of layers, shell patterns allowed; without any, the dense layers with an
        activation of a unit alone that do not make the model's outputs.
    :raises PluginRefused: if a pattern names no layer, or one that cannot drop its weights.
    """
    layers = nested_layers(model)
    if patterns:
        for pattern in patterns:
            named = [layer for layer in layers if fnmatch(layer.name, pattern)]
            if not named:
                raise PluginRefused(f'the model has no layer "{pattern}"')
            for layer in named:
                if why_not_dropped(layer):
                    raise PluginRefused(f'the layer "{layer.name}" {why_not_dropped(layer)}')
        return [one for one in layers if any(fnmatch(one.name, p) for p in patterns)], []
    outputs = _output_layers(model)
    if outputs is None:
        return [], ["which layers make the model's outputs is not known; name layers"]
    dense = [layer for layer in layers if isinstance(layer, keras.layers.Dense)]
    reasons = {layer: why_not_dropped(layer) for layer in dense}
    reasons |= {layer: "makes the outputs" for layer in dense if layer in outputs}
    kept = [f'"{layer.name}" {reason}' for layer, reason in reasons.items() if reason]
    return [layer for layer, reason in reasons.items() if not reason], kept


def _output_layers(model: Any) -> list[Any] | None:
    """Return the layers that make the model's outputs, None where it does not tell."""
    if isinstance(model, keras.Sequential):
        return list(model.layers[-1:])
    if not getattr(model, "outputs", None) or why_without("output-layers"):
        return None
    return [one._keras_history.operation for one in keras.tree.flatten(model.outputs)]


@plugin
class DropConnect(Plugin):
    """Drops single weights of dense layers while they train, where dropout drops whole units.

    What it does: in training each weight and bias of a dense layer is 0 with a probability, drawn
    anew for each example. In inference the sum of a unit is taken as normally distributed, with the
    mean and variance that the dropped weights give it, and the mean of the activation is computed
    from these. The layers that make the outputs are left alone.

    Why it helps: against overfitting in large dense layers, sometimes more than dropout does, so
    that a better model is reached. A step becomes slower, not faster.

    When it does not: for models that underfit. A mask for each example takes examples x inputs x
    units random numbers in each step: many times the product itself. masks = "batch" takes one for
    all, and regularizes less evenly.

    Mixes with: l2; swap-backbone and slim-head come before it. Beside dropout on the same layer it
    may be too much. Over several replicas a resumed training draws other masks. A saved model has
    plain Keras layers for the means and the variances, and is meant for inference; one that a
    callback writes infers by the means alone.

    Reference: Wan et al., Regularization of Neural Networks using DropConnect, ICML 2013
    """

    targets = ("convergence",)
    model_change = "in-place"
    after = ("swap-backbone", "slim-head")
    equivalence = "changes"  # other gradients are computed

    rate: float = setting(
        default=0.5,
        validator=[validators.gt(0), validators.lt(1)],
        help="The probability that a weight is dropped, above 0 and below 1.",
        search={"low": 0.1, "high": 0.7},
    )
    masks: Literal["example", "batch"] = setting(
        default="example",
        help="Whether weights are drawn for each example, or once for each batch.",
    )
    layers: tuple[str, ...] = setting(
        default=(),
        converter=tuple,
        help=("Names of dense layers, shell patterns allowed; left out, all but the "
                  "model's outputs."),
    )  # fmt: skip

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Have the dense layers of the model that comes drop their weights.

        :raises PluginRefused: for a name in `layers` that is no such layer.
        """
        missing = why_without("nested-layers")
        if missing:
            raise PluginRefused(missing)
        chosen, kept = chosen_layers(model, self.layers)
        drop_weights(chosen, self.rate, self.masks)
        run.state_of(self)["left_out"] = kept
        return model

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back which layers were called in training with their weights dropped."""
        layers = [one for one in dropping_layers(model) if one.call.traced]
        left_out = run.state_of(self)["left_out"]
        if not dropping_layers(model):
            return Effect.not_applied("; ".join(left_out) or "the model has no dense layer")
        if not layers:
            return Effect.not_applied("no training step called the layers")
        names = ", ".join(f'"{layer.name}"' for layer in layers)
        count = sum(layer.count_params() for layer in layers)
        detail = (
            f"{names}: {count:,} weights, each dropped with {self.rate:g} for each {self.masks}"
        )
        return Effect.applied_as("; ".join([detail, *(f"left alone: {one}" for one in left_out)]))

    def unwrap(self, model: Any) -> Any:
        """A model of plain Keras layers that infers the same."""
        return with_plain_inference(model) if dropping_layers(model) else model

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# write a layer whose call multiplies its kernel by a random mask while it trains"
