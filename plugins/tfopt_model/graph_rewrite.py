"""Rebuilding the graph of a functional model with some of its layers replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tfopt_core import toolkit
from tfopt_core.toolkit import keras


@attrs.frozen(eq=False)
class Call:
    """One call of a layer in the graph of a model.

    :param index: its place among all calls, in the order of the graph.
    :param layer: a Keras layer, or an operation of `keras.ops`.
    :param arguments: positional arguments, among them the input tensors.
    :param named: the others.
    :param outputs: what came out; None while the layer is being replaced.
    """

    index: int
    layer: Any
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    outputs: Any = None

    @property
    def tensors(self) -> list[Any]:
        """Return the input tensors."""
        flat = keras.tree.flatten((self.arguments, dict(self.named)))
        return [one for one in flat if keras.utils.is_keras_tensor(one)]

    def reads(self, other: Call) -> bool:
        """Return whether an output of another call is an input of this one."""
        made = {id(one) for one in keras.tree.flatten(other.outputs)}
        return any(id(one) in made for one in self.tensors)


Replace = Callable[[Call], Any]


def why_no_graph(model: Any) -> str:
    """Return why the layers of a model cannot be replaced, "" if they can."""
    elsewhere = "use its layers otherwise than its graph shows"
    return toolkit.why_no_graph(model, elsewhere, "use its layers")


def calls_of(model: Any) -> list[Call]:
    """Return the calls of a model's layers, in the order of its graph; it stays as it is."""
    calls: list[Call] = []

    def record(call: Call) -> Any:
        outputs = call.layer(*call.arguments, **call.named)
        calls.append(attrs.evolve(call, outputs=outputs))
        return outputs

    _walked(model, record)
    return calls


def rewritten(model: Any, replace: Replace) -> Any:
    """Return a functional model of the same layers, with some of them replaced.

    A layer that is kept stays the same object, with its weights. Where what it is called on has
    another shape than before, one with weights is made anew from its configuration, with its name.

    :param replace: is given each call, and returns its outputs, or None to keep the layer.
    """
    before = [[tuple(one.shape) for one in call.tensors] for call in calls_of(model)]

    def call_layer(call: Call) -> Any:
        outputs = replace(call)
        if outputs is not None:
            return outputs
        layer = call.layer
        if [tuple(one.shape) for one in call.tensors] != before[call.index]:
            layer = made_anew(layer)
        return layer(*call.arguments, **call.named)

    return _walked(model, call_layer)


def made_anew(layer: Any, **changes: Any) -> Any:
    """Return a layer of the same configuration, less these changes, if it has weights."""
    if not isinstance(layer, keras.Layer) or not layer.weights:
        return layer
    return type(layer).from_config({**layer.get_config(), **changes})


def _walked(model: Any, call_layer: Callable[[Call], Any]) -> Any:
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    count = 0

    def call_function(layer: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        return call_layer(Call(count - 1, layer, arguments, named))

    # on the model's own inputs, which keep their names
    return keras.models.clone_model(
        model, model.input, clone_function=lambda layer: layer, call_function=call_function
    )


def parameters(model: Any) -> tuple[int, int]:
    """Return the number of trainable parameters of a model or layer, and of all."""
    trainable = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return trainable, sum(math.prod(weight.shape) for weight in model.weights)
