"""DropConnect: dense layers drop single weights while they train."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any, Literal

from attrs import validators

from tfopt_core.plugins import Effect, Plugin, PluginRefused, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import keras, nested_layers, np, tf, why_without
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
