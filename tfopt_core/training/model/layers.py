"""The parts of a model: its layers, their graph and names, and its optimizers."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without

# The attribute of a model's class that holds what `trained_part` returns.
TRAINED_PART = "tfopt_trained_part"
# Methods by which a model may do something else than its graph shows.
OWN_STEPS = ("call", "train_step", "test_step", "compute_loss", "compute_metrics")


def trained_part(model: Any) -> Any:
    """Return the model that training steps call in place of this one; mostly itself.

    A plugin that computes the frozen layers before the training has steps call the rest.
    """
    return getattr(type(model), TRAINED_PART, model)


def nested_layers(model: Any) -> list[Any]:
    """Return all layers within a model or layer, nested ones too, without itself.

    :raises WorkloadError: if they cannot be listed with the installed Keras.
    """
    missing = why_without("nested-layers")
    if missing:
        raise WorkloadError(missing)
    return list(model._flatten_layers(include_self=False))


def why_no_graph(model: Any, elsewhere: str, what: str) -> str:
    """Return why the layers of a model are no graph that tells all it does, "" if they are.

    :param elsewhere: what a class of its own may do, for the reason; `what` a method of its own.
    """
    name = type(model).__name__
    if not type(model).__module__.startswith("keras."):
        return f'the class "{name}" may {elsewhere}'
    own = [method for method in OWN_STEPS if method in vars(model)]
    if own:
        return f'the model has a "{own[0]}" of its own, which may {what}'
    if isinstance(model, keras.Sequential) and not model.built:
        return "the model is not built yet; begin it with keras.Input(...)"
    if not getattr(model, "inputs", None):
        return f'the layers of "{name}" are no graph; make it with keras.Model(inputs, outputs)'
    return ""


def with_members(model: Any, mark: str, members: Mapping[str, Any]) -> None:
    """Give a model a class with these members, derived from its own. `without_members` undoes it.

    The model, its layers and its variables stay the same objects. Calling the new
    class, as a callback does to clone the model, makes a model of the original class.

    :param mark: the attribute that holds the own class.
    """
    own = type(model)

    def new(cls: Any, *args: Any, **named: Any) -> Any:
        return own(*args, **named)

    # a checkpoint of the training names the class by these
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__}
    added = {**members, **names, mark: own, "__new__": new}
    model.__class__ = type(own.__name__, (own,), added)


def without_members(model: Any, mark: str) -> None:
    """Undo `with_members`, if it was done."""
    own = vars(type(model)).get(mark)
    if own is not None:
        model.__class__ = own


@contextmanager
def method_replaced(thing: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Have a Keras object use another method within the context."""
    own = vars(thing).get(name)
    # past Keras, which would track it as state
    vars(thing)[name] = method
    try:
        yield
    finally:
        del vars(thing)[name]
        if own is not None:
            vars(thing)[name] = own


def map_gradient(function: Callable[[Any], Any], gradient: Any) -> Any:
    """Return what a function makes of a gradient's values; of None, the gradient of a variable that
    the loss does not depend on, None."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return function(gradient)


@contextmanager
def output_losses_weighed(model: Any, weight: Any = None) -> Iterator[None]:
    """Have a trace weigh the logged loss of each output by this, None for 1.

    Keras weighs it by the examples of a batch if the trace knows their number, which its own trace
    does only where all batches have as many: to it batches count alike.
    """
    own = keras.metrics.Mean.update_state

    @functools.wraps(own)
    def update_state(metric: Any, values: Any, sample_weight: Any = None) -> Any:
        losses = None if why_without("output-losses") else model._compile_loss
        of_output = losses is not None and any(metric is one for one in losses.metrics)
        return own(metric, values, weight if of_output else sample_weight)

    keras.metrics.Mean.update_state = update_state
    try:
        yield
    finally:
        keras.metrics.Mean.update_state = own


def frozen_share(model: Any) -> float:
    """Return the share of a model's weights that are in layers which are not to be trained; 0.0 if
    layers cannot be listed with the installed Keras."""
    if why_without("nested-layers"):
        return 0.0
    all_weights = {id(weight): math.prod(weight.shape) for weight in model.weights}
    frozen = {
        id(weight)
        for layer in nested_layers(model)
        if not layer.trainable and not nested_layers(layer)
        for weight in layer.weights
    }
    total = sum(all_weights.values())
    return sum(all_weights.get(weight, 0) for weight in frozen) / total if total else 0.0


def node_of(tensor: Any) -> Any:
    """Return the node that makes a symbolic tensor."""
    history = tensor._keras_history
    return history.operation._inbound_nodes[history.node_index]


def parents(node: Any) -> Iterator[Any]:
    """Yield the nodes whose tensors a node reads."""
    return (node_of(tensor) for tensor in node.input_tensors)


def in_order(outputs: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes of a graph, each behind all that it reads."""
    seen: set[Any] = set()
    stack = [(node_of(tensor), False) for tensor in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in parents(node) if parent not in seen]


_COUNTS = "object_name_uids"


class _FirstBuild:
    """Where Keras' counts of names stood at the first build of the last workload."""

    build_model: Callable[[], Any] | None = None
    counts: Mapping[str, int] = {}


def count_names_from_first_build(build_model: Callable[[], Any]) -> None:
    """Have Keras number the names that it gives (`conv2d_1`) in each build as in the first one.

    Settings may name layers: what one build of a process finds must be true of the next.

    :param build_model: that of the workload, by which it is recognized.
    """
    if why_without("layer-names"):
        return
    from keras.src.backend.common import global_state

    counts = global_state.get_global_attribute(_COUNTS, defaultdict(int), set_to_default=True)
    if _FirstBuild.build_model == build_model:
        counts.clear()
        counts.update(_FirstBuild.counts)
    else:
        _FirstBuild.build_model, _FirstBuild.counts = build_model, dict(counts)


def optimizers_of(model: Any) -> list[Any]:
    """Return every optimizer that the model holds, that of `compile` first.

    The user's own `train_step` may keep others as attributes, single or in lists and dicts.
    """
    held = [model.optimizer]
    for value in vars(model).values():
        several = value.values() if isinstance(value, dict) else value
        held.extend(several if isinstance(value, dict | list | tuple) else [value])
    optimizers = [part for part in held if isinstance(part, keras.optimizers.Optimizer)]
    return list({id(optimizer): optimizer for optimizer in optimizers}.values())
