"""Remember what the step of a model was traced with, which Keras' own loop goes on with.

Keras traces a step once and calls it in each later fit. A loop of the stack that traces it in a
later fit would train with what was set in between.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from tfopt_core.data.functions import drawing_ops
from tfopt_core.private_api import why_without
from tfopt_core.training.model.layers import nested_layers

# What a trace reads of the models whose step was traced by Keras' own number of steps a call.
_TRACED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
# The models whose traced steps draw random numbers by TensorFlow.
_DRAWING: WeakSet[Any] = WeakSet()
# What fits and callbacks set, and tfopt for the time of a fit.
_OF_FITS = frozenset({
    "built", "fit", "history", "make_train_function", "predict_function", "steps_per_execution",
    "stop_evaluating", "stop_predicting", "stop_training", "test_function", "test_step",
    "train_function", "train_step",
})  # fmt: skip


def forget_trace(model: Any) -> None:
    """Note that a fit will trace the model's step."""
    _TRACED.pop(model, None)
    _DRAWING.discard(model)


def note_trace(model: Any) -> None:
    """Note that a fit has traced the model's step, by as many steps a call as Keras makes."""
    _TRACED[model] = _read_by_a_trace(model)


def note_draws(model: Any) -> None:
    """Note whether the model's step, which is being traced, draws random numbers by TensorFlow."""
    import tensorflow as tf

    if drawing_ops(tf.compat.v1.get_default_graph()):
        _DRAWING.add(model)


def step_draws(model: Any) -> bool:
    """Return whether the model's traced step draws random numbers by TensorFlow."""
    return model in _DRAWING


def why_as_traced(model: Any) -> str:
    """Return why only Keras' own number of steps a call trains on as before; empty if others do.

    Something has changed behind the trace, which Keras does not notice before the model is compiled
    again: a layer was frozen or thawed, or another optimizer, rate or constant was set. Or random
    numbers go on in the function that drew them."""
    traced = _TRACED.get(model) if model.train_function is not None else None
    if traced is None:
        return ""
    now = _read_by_a_trace(model)
    changed = [name for name in {**traced, **now} if traced.get(name) != now.get(name)]
    if changed:
        return f"with {changed[0]}"
    return "which draws random numbers by TensorFlow" if step_draws(model) else ""


def _read_by_a_trace(model: Any) -> dict[str, Any]:
    """Return what Keras or the user may set on a model and its layers, by what a change of it is in
    words: plain values as they are, others by number."""
    read: dict[str, Any] = {"other layers frozen": frozenset(map(id, model.trainable_variables))}
    layers = () if why_without("nested-layers") else nested_layers(model)
    for part in (model, *layers):
        of_part = "" if part is model else f' of "{part.name}"'
        for name, value in vars(part).items():
            if not name.startswith("_") and name not in _OF_FITS:
                plain = isinstance(value, bool | int | float | str)
                read[f"another {name}{of_part}"] = value if plain else id(value)
    return read
