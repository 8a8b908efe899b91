"""Apply a `PrecisionPolicy` to Keras."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.lazy import keras
from tfopt_core.private_api import why_without
from tfopt_core.training.model.layers import nested_layers

FULL = ("float32", "float64")


def set_policy(policy: PrecisionPolicy) -> Any:
    """Set the dtype policy of the layers that are built from now on, and return it.

    With the scope "layers" it is float32, as an object of its own: a layer that is given no dtype
    holds this very object, and one that is given "float32" another.
    """
    by_layers = policy.scope == "layers" and policy.policy not in FULL
    default = keras.DTypePolicy("float32" if by_layers else policy.policy)
    keras.config.set_dtype_policy(default)
    return default


def apply_precision(model: Any, policy: PrecisionPolicy, default: Any) -> None:
    """Set the policy on the layers of a model that is built, and keep some of them in float32.

    Layers that the model makes later, when it is called first, get the policy too.

    :param default: what `set_policy` has returned.
    """
    if policy.scope == "layers" and policy.policy not in FULL:
        for layer in _without_own_dtype(model, default):
            layer.dtype_policy = policy.policy
        keras.config.set_dtype_policy(policy.policy)
    keep_in_float32(model, policy)


def keep_in_float32(model: Any, policy: PrecisionPolicy) -> None:
    """Keep the output layers, and the layers that the policy names, in float32.

    Loss and softmax lose digits in half precision. A model whose output layers are unknown (it
    builds itself when called) keeps its policy; Keras' losses convert to float32 anyway.
    """
    if policy.policy in FULL:
        return
    chosen: list[Any] = list(_outputs(model)) if policy.float32_outputs else []
    chosen += named_layers(model, policy.float32_layers, policy.float32_types)
    for layer in chosen:
        layer.dtype_policy = "float32"


def named_layers(model: Any, names: Iterable[str], types: Iterable[str]) -> list[Any]:
    """Return the layers of a model with these names or classes, with the layers within them.

    :param names, types: shell patterns.
    """
    names, types = tuple(names), tuple(types)
    found: list[Any] = []
    for layer in nested_layers(model) if names or types else ():
        if any(fnmatchcase(layer.name, pattern) for pattern in names) or any(
            fnmatchcase(type(layer).__name__, pattern) for pattern in types
        ):
            found += [layer, *nested_layers(layer)]
    return list({id(layer): layer for layer in found}.values())


def _outputs(model: Any) -> Iterable[Any]:
    """Yield the output layers of a model, and of the models within one that has its own
    `train_step`: it computes its loss from what they return."""
    models = [model]
    if type(model).train_step is not keras.Model.train_step:
        models += [part for part in model.layers if isinstance(part, keras.Model)]
    for part in models:
        if isinstance(part, keras.Sequential) or not why_without("output-layers"):
            yield from output_layers(part)


def output_layers(model: Any) -> tuple[Any, ...]:
    """Return the layers that produce the model's outputs, as far as the model knows them.

    Of a model that produces an output they are its own output layers; of a layer of Keras that
    holds others (TimeDistributed, Bidirectional) all of these too.
    """
    if isinstance(model, keras.Sequential):
        operations = model.layers[-1:]
    else:
        try:
            outputs = keras.tree.flatten(model.outputs)
        except (AttributeError, ValueError):
            return ()
        operations = [output._keras_history.operation for output in outputs]
    found: list[Any] = []
    for operation in operations:
        if isinstance(operation, keras.Model):
            found += output_layers(operation)
        elif isinstance(operation, keras.Layer):
            of_keras = type(operation).__module__.startswith("keras.")
            found += operation._flatten_layers() if of_keras else [operation]
    return tuple({id(layer): layer for layer in found}.values())


def _without_own_dtype(model: Any, default: Any) -> list[Any]:
    """Return the layers of a model that was built under `default` which were given no dtype.

    Keras' own wrappers copy a layer with its dtype written out (Bidirectional), so what is within
    one counts as the wrapper does. In a model that was loaded every layer's dtype is written out:
    then all layers count. Models that only pass tensors on to their layers are left out: their
    dtype would round the inputs of layers that stay in float32.
    """
    layers = [model, *nested_layers(model)]
    plain = [layer for layer in layers if type(layer.dtype_policy) is type(default)]
    if all(layer.dtype_policy == default for layer in plain) and not any(
        layer.dtype_policy is default for layer in plain
    ):
        return [layer for layer in plain if not _passes_on(layer)]
    chosen = {id(x): x for x in plain if x.dtype_policy is default and not _passes_on(x)}
    for layer in list(chosen.values()):
        if type(layer).__module__.startswith("keras."):
            within = nested_layers(layer)
            chosen |= {id(part): part for part in within if part.dtype_policy == default}
    return list(chosen.values())


def _passes_on(layer: Any) -> bool:
    if isinstance(layer, keras.layers.InputLayer):
        return True
    own = getattr(type(layer).call, "__module__", "")
    return isinstance(layer, keras.Model) and own.startswith("keras.")
