"""Remember what the step of a model was traced with, which Keras' own loop goes on with.

Keras traces a step once and calls it in each later fit. A loop of the stack that traces it in a
later fit would train with what was set in between.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data.functions import drawing_ops
from tfopt_core.lazy import np, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.model.layers import nested_layers, optimizers_of

# The traces of each model's step by the structure of their batch: whether Keras' own train function
# made it, and the shapes of the batch's parts.
_TRACES: WeakKeyDictionary[Any, dict[str, list[_Trace]]] = WeakKeyDictionary()
_Trace = tuple[bool, tuple[Any, ...]]
# What the last trace of each model by Keras' own train function has read, and as what.
_READ: WeakKeyDictionary[Any, dict[_Read, Any]] = WeakKeyDictionary()
# The operations of TensorFlow by which the traced steps of models draw random numbers.
_DRAWING: WeakKeyDictionary[Any, Sequence[str]] = WeakKeyDictionary()
# What fits set on a model, or tfopt for the time of a fit.
_OF_FITS = frozenset({
    "built", "fit", "history", "make_train_function", "predict_function", "steps_per_execution",
    "stop_evaluating", "stop_predicting", "stop_training", "test_function", "test_step",
    "train_function", "train_step",
})  # fmt: skip


@attrs.frozen
class _Read:
    """What can be set on a part of a model, or on its optimizer.

    :param part: the number of the part, since two may have one name.
    :param words: what a change of it is.
    :param of_class: whether the class of the part has such an attribute too.
    """

    part: int
    name: str
    words: str = attrs.field(eq=False)
    of_class: bool = attrs.field(default=False, eq=False)


def forget_trace(model: Any) -> None:
    """Note that a fit will trace the model's step."""
    _TRACES.pop(model, None)
    _READ.pop(model, None)
    _DRAWING.pop(model, None)


def note_trace(model: Any, batch: Any, *, of_keras: bool) -> None:
    """Note what the model's step is being traced with, and whether it draws by TensorFlow.

    :param batch: the tensors for which it is traced.
    :param of_keras: whether Keras' own train function calls it, not a loop that others share.
    """
    if of_keras:
        _READ[model] = {read: _kept(value) for read, value in _read_by_a_trace(model)}
    traces = _TRACES.setdefault(model, {}).setdefault(_structure(batch), [])
    traces.append((of_keras, _shapes_of(batch)))
    if ops := drawing_ops(tf.compat.v1.get_default_graph()):
        _DRAWING[model] = ops


def traced_before(model: Any, batch: Any) -> bool:
    """Return whether the model's step was traced before for a batch of such a structure."""
    return bool(_traces_for(model, batch))


def as_called(model: Any, spec: Any) -> Any:
    """Return the specification for which Keras' own train function makes a step on such a batch.

    Keras calls a step that it has traced for just these shapes, or else for any size of an axis,
    and traces one for any where they differ from all that it has traced. A graph is optimized for
    sizes that are known, and rounds otherwise."""
    shapes, traced = _shapes_of(spec), [shapes for _, shapes in _traces_for(model, spec)]
    for others in () if shapes in traced else traced:
        pairs = zip(shapes, others, strict=True)
        shapes = tuple(one.most_specific_common_supertype([other]) for one, other in pairs)
    return _of_shapes(spec, shapes)


def specs_of_keras(model: Any, spec: Any) -> list[Any]:
    """Return the specifications, like this one, that Keras' own train function was traced for."""
    return [_of_shapes(spec, shapes) for of_keras, shapes in _traces_for(model, spec) if of_keras]


def _of_shapes(spec: Any, shapes: Iterable[Any]) -> Any:
    parts = [
        tf.TensorSpec(shape, part.dtype) if isinstance(part, tf.TensorSpec) else part
        for part, shape in zip(tf.nest.flatten(spec), shapes, strict=True)
    ]
    return tf.nest.pack_sequence_as(spec, parts)


def _traces_for(model: Any, batch: Any) -> list[_Trace]:
    return _TRACES.get(model, {}).get(_structure(batch), [])


def _shapes_of(batch: Any) -> tuple[Any, ...]:
    return tuple(tf.TensorShape(getattr(part, "shape", None)) for part in tf.nest.flatten(batch))


def drawn_so_far() -> tuple[Any, ...]:
    """Return where the global generators of Python and NumPy stand."""
    _, keys, place, *_ = np.random.get_state(legacy=True)
    return random.getstate(), np.asarray(keys).tobytes(), place


def step_draws(model: Any) -> Sequence[str]:
    """Return the operations of TensorFlow by which the model's traced step draws random numbers."""
    return _DRAWING.get(model, ())


def why_as_traced(model: Any, batch: Any = None) -> str:
    """Return why only Keras' own train function trains on as before; empty if others do.

    :param batch: the tensors for which another train function traces the step; None if they are
        not known yet.

    Something has changed behind the trace, which Keras does not notice before the model is compiled
    again: a layer was frozen or thawed, or another optimizer, rate or constant was set. Or random
    numbers go on in the function that drew them."""
    before = _READ.get(model) if model.train_function is not None else None
    by_keras = batch is None or any(of_keras for of_keras, _ in _traces_for(model, batch))
    if before is None or not by_keras:
        return ""
    for read, value in _read_by_a_trace(model):
        if not _is_same(before[read], value) if read in before else read.of_class:
            return f"with {read.words}"
    return "which draws random numbers by TensorFlow" if step_draws(model) else ""


def _read_by_a_trace(model: Any) -> Iterator[tuple[_Read, Any]]:
    """Yield what the user may set on a model, its layers and optimizers, and its value."""
    in_code = _names_in_code(type(model))
    trained = frozenset(map(id, model.trainable_variables))
    yield _Read(0, "trainable variables", "other layers frozen"), trained
    layers = () if why_without("nested-layers") else nested_layers(model)
    for number, part in enumerate((model, *layers, *optimizers_of(model))):
        of_part = "" if part is model else f' of "{part.name}"'
        if hasattr(part, "trainable"):
            yield _Read(number, "trainable", "other layers frozen"), part.trainable
        for name, value in vars(part).items():
            if name.startswith("_") or name in _OF_FITS or tf.is_symbolic_tensor(value):
                continue
            if getattr(value, "__module__", "").startswith("tfopt"):
                continue  # a method that a plugin replaces for the time of a fit
            # a callback may note what it likes on the model
            if part is not model or name == "optimizer" or name in in_code:
                of_class = hasattr(type(part), name)
                yield _Read(number, name, f"another {name}{of_part}", of_class), value
    yield _Read(0, "jit_compile", "another jit_compile"), bool(model.jit_compile)


def _structure(batch: Any) -> str:
    """Return the structure of a batch, or of its specification, with the type and rank of each
    tensor."""

    def kind(part: Any) -> Any:
        # None, or the specification of an empty optional
        return (part.dtype.name, part.shape.rank) if hasattr(part, "dtype") else None

    return str(tf.nest.map_structure(kind, batch))


def _names_in_code(kind: type) -> frozenset[str]:
    """Return the names in the code of a model's class that is not Keras' own."""
    own = [each for each in kind.__mro__ if not each.__module__.startswith("keras.")]
    codes = [getattr(value, "__code__", None) for each in own for value in vars(each).values()]
    return frozenset(name for code in codes if code is not None for name in code.co_names)


def _kept(value: Any) -> Any:
    """Return a plain value as it is, and of others a reference that keeps nothing alive."""
    if isinstance(value, bool | int | float | str | frozenset):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return id(value)


def _is_same(kept: Any, value: Any) -> bool:
    if isinstance(kept, weakref.ref):
        return kept() is value
    now = _kept(value)
    return type(kept) is type(now) and (kept == now or (kept != kept and now != now))
