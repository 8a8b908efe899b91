"""Dense layers whose weights are dropped while they train, and their inference by moments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from tfopt_core.toolkit import keras, nested_layers, np, tf
from tfopt_model.graph_rewrite import Call, made_anew, rewritten, why_no_graph

# Activations that compute a unit from several.
MIXING = ("softmax", "log_softmax", "sparsemax", "glu")
# Points of the quadrature: off by 2e-6 at most for tanh at a deviation of 1, by 0.01 at 3.
POINTS = 24


def drop_weights(layers: Iterable[Any], rate: float, masks: str) -> None:
    """Have these dense layers drop their weights in training, in place.

    A weight is 0 with the probability `rate`, and is divided by 1 - rate else, so that its mean
    stays. In inference a unit's sum is taken as normally distributed, and what the activation makes
    of it on average is computed.

    :param masks: "example" draws for each example, "batch" once for all of a batch.
    """
    # the threads of several replicas, and those that hand steps out to workers, do not see Keras'
    # global generator, which checkpoints hold
    strategy = tf.distribute.get_strategy()
    handed_out = isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy)
    shared = handed_out or strategy.num_replicas_in_sync > 1
    seed = keras.random.SeedGenerator() if shared else None
    for layer in layers:
        given = vars(layer).get("call")
        # an earlier fit of a script may have traced it already
        if getattr(given, "settings", None) != (rate, masks):
            layer.call = dropping_call(layer, rate, masks, seed)


def dropping_call(dense: Any, rate: float, masks: str, seed: Any = None) -> Any:
    """Return what a dense layer calls in the place of its own `call`.

    :param seed: the `keras.random.SeedGenerator` that the masks come from; None for the global one.
    """

    def call(inputs: Any, training: bool | None = None) -> Any:
        if training:
            call.traced += 1  # type: ignore[attr-defined]
            return dropped(dense, inputs, rate, masks, seed)
        mean, deviation = moments(dense, inputs, rate)
        return mean_activation(dense.activation, mean, deviation)

    call.settings, call.traced = (rate, masks), 0  # type: ignore[attr-defined]
    return call


def dropped(dense: Any, inputs: Any, rate: float, masks: str, seed: Any = None) -> Any:
    """Return the outputs of a dense layer with weights and biases dropped at random."""
    ops = keras.ops
    kernel = ops.convert_to_tensor(dense.kernel)
    bias = None if dense.bias is None else ops.convert_to_tensor(dense.bias)
    if masks == "batch":
        outputs = ops.matmul(inputs, keras.random.dropout(kernel, rate, seed=seed))
        if bias is not None:
            outputs = outputs + keras.random.dropout(bias, rate, seed=seed)
        return dense.activation(outputs)
    shape = ops.shape(inputs)
    width, units = kernel.shape
    kernels = ops.broadcast_to(kernel, (shape[0], width, units))
    rows = ops.reshape(inputs, (shape[0], math.prod(inputs.shape[1:-1]), width))
    outputs = ops.matmul(rows, keras.random.dropout(kernels, rate, seed=seed))
    if bias is not None:
        biases = ops.broadcast_to(bias, (shape[0], 1, units))
        outputs = outputs + keras.random.dropout(biases, rate, seed=seed)
    return dense.activation(ops.reshape(outputs, (*shape[:-1], units)))


def moments(dense: Any, inputs: Any, rate: float) -> tuple[Any, Any]:
    """Return the mean and the standard deviation of a layer's sums over its dropped weights."""
    ops = keras.ops
    mean = ops.matmul(inputs, dense.kernel)
    kernel = ops.cast(dense.kernel, "float32")
    variance = ops.matmul(ops.square(ops.cast(inputs, "float32")), ops.square(kernel))
    if dense.bias is not None:
        mean = mean + dense.bias
        variance = variance + ops.square(ops.cast(dense.bias, "float32"))
    return ops.cast(mean, "float32"), ops.sqrt(rate / (1 - rate) * variance)


def mean_activation(activation: Any, mean: Any, deviation: Any) -> Any:
    """Return the mean of an activation over a normal distribution, for each unit.

    Wan et al. draw samples of it. For a linear unit and for relu it has a closed form; for others
    Gauss-Hermite quadrature takes the place of samples, so that inference repeats.
    """
    ops = keras.ops
    if activation is None or activation is keras.activations.linear:
        return mean
    deviation = ops.maximum(deviation, 1e-12)
    if activation is keras.activations.relu:
        ratio = mean / deviation
        below = 0.5 * (1.0 + ops.erf(ratio / math.sqrt(2.0)))
        density = ops.exp(-0.5 * ops.square(ratio)) / math.sqrt(2.0 * math.pi)
        return mean * below + deviation * density
    points, weights = np.polynomial.hermite_e.hermegauss(POINTS)
    parts = [
        float(weight) * activation(mean + float(point) * deviation)
        for point, weight in zip(points, weights / weights.sum(), strict=True)
    ]
    return sum(parts[1:], parts[0])


def dropping_layers(model: Any) -> list[Any]:
    """Return the layers of a model that drop their weights."""
    return [one for one in nested_layers(model) if hasattr(vars(one).get("call"), "settings")]


def with_plain_inference(model: Any) -> Any:
    """Return a model of Keras' own layers that infers as one whose weights are dropped in training.

    Each such layer becomes a linear one and another that computes the variances, which is not
    trainable: a Dense layer of the means alone is another network for relu (off by 0.36 where this
    is off by 0.12), and a layer of our own would load nowhere else. A model that is no graph, or
    has such layers in a nested model, is returned with its layers as they were made: they infer by
    the means alone, which a warning says.
    """
    layers = dropping_layers(model)
    reason = why_no_graph(model)
    if not reason and not all(any(one is layer for one in model.layers) for layer in layers):
        reason = "a layer whose weights are dropped lies in a nested model"
    if reason:
        warnings.warn(
            f"tfopt: the saved model computes with the means of its dropped weights: {reason}",
            stacklevel=2,
        )
        for layer in layers:
            del layer.call
        return model

    def replace(call: Call) -> Any:
        if not any(call.layer is layer for layer in layers):
            return None
        return _plain_moments(call.layer, call.tensors[0])

    plain = rewritten(model, replace)
    if model.compiled and not plain.compiled:
        plain.compile_from_config(model.get_compile_config())
    if plain.compiled and model.optimizer.built:
        plain.optimizer.build(plain.trainable_variables)
        for new, old in zip(plain.optimizer.variables, model.optimizer.variables, strict=True):
            new.assign(old)
    return plain


def _plain_moments(dense: Any, inputs: Any) -> Any:
    rate, _ = dense.call.settings
    linear = made_anew(dense, activation="linear")
    linear.build(inputs.shape)
    linear.set_weights(dense.get_weights())
    spread = keras.layers.Dense(
        dense.units,
        use_bias=dense.use_bias,
        trainable=False,
        dtype="float32",
        name=f"{dense.name}_spread",
    )
    spread.build(inputs.shape)
    spread.set_weights([rate / (1 - rate) * weight**2 for weight in dense.get_weights()])
    inputs32 = keras.ops.cast(inputs, "float32")
    deviation = keras.ops.sqrt(spread(keras.ops.square(inputs32)))
    return mean_activation(dense.activation, keras.ops.cast(linear(inputs), "float32"), deviation)
