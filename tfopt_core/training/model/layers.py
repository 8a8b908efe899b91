"""The parts of a model: its layers and their names, and its optimizers."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without


def nested_layers(model: Any) -> list[Any]:
    """Return all layers within a model or layer, nested ones too, without itself.

    :raises WorkloadError: if they cannot be listed with the installed Keras.
    """
    missing = why_without("nested-layers")
    if missing:
        raise WorkloadError(missing)
    return list(model._flatten_layers(include_self=False))


def runs_eagerly(model: Any) -> bool:
    """Return whether each operation of the model's step is started from Python."""
    return bool(model.run_eagerly) or tf.config.functions_run_eagerly()


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


class _FirstBuild:
    """Where Keras' counts of names stood at the first build of the last workload."""

    build_model: Callable[[], Any] | None = None
    counts: Mapping[str, int] = {}


def count_names_from_first_build(build_model: Callable[[], Any]) -> None:
    """Have Keras number the names that it gives (`conv2d_1`) in each build as in the first one.

    Settings may name layers: what one build of a process finds must be true of the next.

    :param build_model: that of the workload, by which it is recognized.
    """
    counts = name_counts()
    if _FirstBuild.build_model == build_model:
        counts.clear()
        counts.update(_FirstBuild.counts)
    else:
        _FirstBuild.build_model, _FirstBuild.counts = build_model, dict(counts)


def name_counts() -> dict[str, int]:
    """Return how many names Keras has given of each kind, which it counts on in this object; where
    that cannot be told, an object that nothing reads."""
    if why_without("layer-names"):
        return {}
    from keras.src.backend.common import global_state

    counts: dict[str, int] = global_state.get_global_attribute(
        "object_name_uids", defaultdict(int), set_to_default=True
    )
    return counts


def global_generator() -> Any:
    """Return Keras' global seed generator; None if it is unused so far, or not accessible."""
    if why_without("keras-random-state"):
        return None
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("global_seed_generator")


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
