"""L2: a penalty on large weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import validators

from tfopt_core.plugins import (
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import why_without


def add_l2(model: Any, strength: float) -> tuple[str, ...]:
    """Penalize the kernel of every layer that has none of its own penalty yet, in place.

    :param strength: the loss grows by this times the sum of squares of the kernel.
    :returns: the names of these layers.
    """
    import keras

    names = []
    for layer in layers_with_kernels(model):
        if layer.built:
            # set on a built layer, `kernel_regularizer` would add no loss: the variable's does
            if layer.kernel.regularizer is None and layer.kernel.trainable:
                layer.kernel.regularizer = keras.regularizers.L2(strength)
                if "kernel_regularizer" in vars(layer):
                    # adds nothing here, but a saved model is loaded from what the layer says
                    layer.kernel_regularizer = keras.regularizers.L2(strength)
                names.append(layer.name)
        elif layer.kernel_regularizer is None:
            layer.kernel_regularizer = keras.regularizers.L2(strength)
            names.append(layer.name)
    return tuple(names)


def layers_with_kernels(model: Any) -> Iterator[Any]:
    """Yield the layers of a model that have a kernel, or will once they are built."""
    import keras

    for layer in model._flatten_layers(include_self=False):
        if layer.built:
            found = isinstance(getattr(layer, "kernel", None), keras.Variable)
        else:
            # a recurrent layer only shows its cell's, and the cell is a layer of its own
            shown = isinstance(getattr(type(layer), "kernel_regularizer", None), property)
            found = hasattr(layer, "kernel_regularizer") and not shown
        if found:
            yield layer


@plugin
class L2(Plugin):
    """Adds a penalty on large weights to the loss.

    What it does: adds an L2 penalty on the kernel of every layer that has one (dense,
    convolution, ...) and no penalty of its own. Biases and normalizations are left alone.

    Why it helps: smaller weights often generalize better, so the target is reached in fewer epochs
    or with a smaller model. A step does not become faster.

    When it does not: for models that underfit; it costs a little each step. With Adam a decoupled
    weight decay (AdamW) is often better.

    Mixes with: everything. The reported loss holds the penalty, so compare val_data_loss or another
    metric.

    Reference: Krogh and Hertz, A Simple Weight Decay Can Improve Generalization, NIPS 1991
    """

    targets = ("convergence",)
    model_change = "in-place"
    after = ("swap-backbone", "slim-head")
    equivalence = "changes"  # another loss is minimized

    strength: float = setting(
        default=1e-4,
        validator=validators.gt(0),
        help="What the sum of squares of each kernel is multiplied by, above 0.",
        search={"low": 1e-6, "high": 1e-2, "log": True},
    )

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Add the penalties to the model that comes."""
        missing = why_without("nested-layers")
        if missing:
            raise PluginRefused(missing)
        run.state_of(self)["layers"] = add_l2(model, self.strength)
        return model

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back how many penalties the model's loss holds."""
        layers = run.state_of(self).get("layers", ())
        if not layers:
            return Effect.not_applied("no layer has a trainable kernel without a penalty")
        count = len(model.losses)
        if count < len(layers):
            return Effect.not_applied(f"{len(layers)} penalties were set, model.losses has {count}")
        return Effect.applied_as(
            f"{len(layers)} kernels penalized with {self.strength:g}; model.losses has {count}"
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        return (
            "# for each layer with a kernel, where the model is built\n"
            "layer = keras.layers.Dense(units, "
            f"kernel_regularizer=keras.regularizers.L2({self.strength!r}))"
        )
