"""L2 penalties that share one variable as their scale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

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
    import keras

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
            penalty = _scaled_l2()(first, variable)
            if layer.built:
                layer.kernel.regularizer = penalty
            else:
                layer.kernel_regularizer = penalty
        elif not _is_scaled(own):
            continue
        scaled.append(layer)
    penalties = Penalties(tuple(scaled), variable, added)
    penalties.write_configurations()
    return penalties


def _own_penalty(layer: Any) -> Any:
    return layer.kernel.regularizer if layer.built else layer.kernel_regularizer


def _is_scaled(penalty: Any) -> bool:
    return isinstance(penalty, _scaled_l2())


def unscale(layers: Iterable[Any]) -> None:
    """Give the kernels of these layers plain penalties of the present strength, in place."""
    for layer in layers:
        if layer.built and _is_scaled(layer.kernel.regularizer):
            layer.kernel.regularizer = layer.kernel.regularizer.fixed()


def follower(penalties: Penalties, scale: Callable[[], float]) -> Any:
    """Return a Keras callback that sets the scale at the start of each epoch."""
    import keras

    class ScaleSetter(keras.callbacks.Callback):  # type: ignore[misc]
        keeps_no_state = True  # the plugin keeps it

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            penalties.set_scale(scale())

    return ScaleSetter()


@functools.cache
def _scaled_l2() -> Any:
    import keras

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
