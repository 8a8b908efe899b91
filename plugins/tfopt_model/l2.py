"""L2: a penalty on large weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import Effect, Plugin, PluginRefused, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import keras, why_without

_UNBUILT = "kernel_regularizer"


@attrs.frozen(eq=False)
class Penalties:
    """The scaled penalties of a model.

    :param layers: the layers that have one.
    :param variable: the `keras.Variable` that multiplies them all.
    :param added: how many kernels had no penalty before.
    """

    layers: tuple[Any, ...]
    variable: Any
    added: int

    def scale(self) -> float:
        """Return the scale that the training step reads."""
        return float(self.variable.numpy())

    def set_scale(self, scale: float) -> None:
        """Assign the scale, and have each layer's configuration say the strength it makes."""
        self.variable.assign(scale)
        self.write_configurations()

    def write_configurations(self) -> None:
        """Put a plain `keras.regularizers.L2` of the present strength into the configuration of
        each layer that is built: a saved model is loaded from it, without tfopt."""
        for layer in self.layers:
            scaled = layer.built and _is_scaled(layer.kernel.regularizer)
            if scaled and _UNBUILT in vars(layer):
                layer.kernel_regularizer = layer.kernel.regularizer.fixed()

    def total(self) -> float:
        """Return the sum of the penalties of the weights as they are."""
        kernels = [layer.kernel for layer in self.layers if layer.built]
        scaled = [one for one in kernels if _is_scaled(one.regularizer)]
        return sum(float(one.regularizer(one)) for one in scaled)

    def in_effect(self) -> int:
        """Return how many kernels of the model have a scaled penalty."""
        built = (layer for layer in self.layers if layer.built)
        return sum(_is_scaled(layer.kernel.regularizer) for layer in built)


def scale_penalties(layers: Sequence[Any], strength: float) -> Penalties:
    """Have all L2 penalties of these layers' kernels share a scale, in place: 1 at first.

    :param layers: layers with a kernel, built or not.
    :param strength: for a trainable kernel without a penalty.
    """
    # what an earlier fit of a script has traced reads the variable of that fit
    variable = next((own.scale for own in map(_own_penalty, layers) if _is_scaled(own)), None)
    if variable is None:
        variable = keras.Variable(
            1.0, trainable=False, dtype="float32", name="l2_scale", aggregation="only_first_replica"
        )
    scaled, added = [], 0
    for layer in layers:
        own = _own_penalty(layer)
        if layer.built and not layer.kernel.trainable:
            continue
        if own is None or type(own) is keras.regularizers.L2:
            first = strength if own is None else float(own.l2)
            added += own is None
            _set_penalty(layer, _scaled_l2()(first, variable))
        elif not _is_scaled(own):
            continue
        scaled.append(layer)
    penalties = Penalties(tuple(scaled), variable, added)
    penalties.write_configurations()
    return penalties


def _own_penalty(layer: Any) -> Any:
    return layer.kernel.regularizer if layer.built else layer.kernel_regularizer


def _set_penalty(layer: Any, penalty: Any) -> None:
    if layer.built:
        # set on a built layer, `kernel_regularizer` would add no loss: the variable's does
        layer.kernel.regularizer = penalty
    if not layer.built or _UNBUILT in vars(layer):
        # a saved model is loaded from what the layer says
        layer.kernel_regularizer = penalty


def _is_scaled(penalty: Any) -> bool:
    return isinstance(penalty, _scaled_l2())


def unscale(layers: Iterable[Any]) -> None:
    """Give the kernels of these layers plain penalties of the present strength, in place."""
    for layer in layers:
        if layer.built and _is_scaled(layer.kernel.regularizer):
            layer.kernel.regularizer = layer.kernel.regularizer.fixed()


def follower(penalties: Penalties, scale: Callable[[], float]) -> Any:
    """Return a Keras callback that sets the scale at the start of each epoch."""

    class ScaleSetter(keras.callbacks.Callback):  # type: ignore[misc]
        keeps_no_state = True  # the plugin keeps it

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            penalties.set_scale(scale())

    return ScaleSetter()


@functools.cache
def _scaled_l2() -> Any:
    class ScaledL2(keras.regularizers.L2):  # type: ignore[misc]
        """The L2 penalty of a strength, times a variable."""

        def __init__(self, l2: float, scale: Any) -> None:
            super().__init__(l2)
            self.scale = scale

        def __call__(self, x: Any) -> Any:
            return keras.ops.cast(self.scale, x.dtype) * super().__call__(x)

        def get_config(self) -> dict[str, Any]:
            return {"l2": self.l2 * float(self.scale.numpy())}

        def fixed(self) -> Any:
            """Return a plain L2 of the present strength."""
            return keras.regularizers.L2(self.l2 * float(self.scale.numpy()))

    return ScaledL2


def add_l2(model: Any, strength: float) -> tuple[str, ...]:
    """Penalize the kernel of every layer that has none of its own penalty yet, in place.

    :param strength: the loss grows by this times the sum of squares of the kernel.
    :returns: the names of these layers.
    """
    names = []
    for layer in layers_with_kernels(model):
        frozen = layer.built and not layer.kernel.trainable
        if _own_penalty(layer) is None and not frozen:
            _set_penalty(layer, keras.regularizers.L2(strength))
            names.append(layer.name)
    return tuple(names)


def layers_with_kernels(model: Any) -> Iterator[Any]:
    """Yield the layers of a model that have a kernel, or will once they are built.

    :raises PluginRefused: if the layers cannot be listed with the installed Keras.
    """
    if missing := why_without("nested-layers"):
        raise PluginRefused(missing)
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
        """Add the penalties to the model that comes; see `layers_with_kernels`."""
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
