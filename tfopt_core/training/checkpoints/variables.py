"""Capture and restore the variables of a model and its optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfopt_core.errors import InputError
from tfopt_core.training.build import Built
from tfopt_core.training.layers import optimizers_of
from tfopt_core.training.loops.graph_steps import one_step

# Unsigned integers of a size, for the types that NumPy alone does not know (bfloat16, float8).
_AS_BITS = {1: np.uint8, 2: np.uint16}


def capture(
    groups: Mapping[str, Iterable[Any]], strategy: Any, *, merged: bool = True
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the values of groups of variables, and a description of each group.

    Replicas may hold different values of a variable (moving averages of their own batches); all of
    them are captured, without reduction or communication.

    :param merged: whether to keep one value where the replicas agree.
    :returns: the arrays, and for each variable its path, type, shape and number of values.
    """
    arrays: dict[str, np.ndarray] = {}
    listed: dict[str, Any] = {}
    for group, variables in groups.items():
        listed[group] = []
        for index, variable in enumerate(variables):
            values = [np.asarray(part.numpy()) for part in _parts(variable, strategy)]
            first, *others = values
            if merged and all(
                _plain(other).tobytes() == _plain(first).tobytes() for other in others
            ):
                values = [first]
            shape = list(first.shape)
            listed[group].append([variable.path, first.dtype.name, shape, len(values)])
            for place, value in enumerate(values):
                arrays[f"{group}/{index}/{place}"] = _plain(value)
    return arrays, listed


def missing(groups: Mapping[str, Iterable[Any]], listed: Mapping[str, Any], strategy: Any) -> str:
    """Return how the variables differ from those listed, in words; "" if they do not."""
    for group, before in listed.items():
        now = list(groups.get(group, ()))
        if len(now) != len(before):
            return f"{len(before)} variables of the {group} are kept, and there are {len(now)}"
        for variable, (path, dtype, shape, count) in zip(now, before, strict=True):
            parts = _parts(variable, strategy)
            now_dtype, now_shape = parts[0].dtype.name, list(parts[0].shape)
            if (now_dtype, now_shape) != (dtype, shape):
                return f'"{path}" is kept as {dtype} {shape}, and is {now_dtype} {now_shape}'
            if count not in (1, len(parts)):
                return f'"{path}" is kept for {count} replicas, and there are {len(parts)}'
    return ""


def restore(
    groups: Mapping[str, Sequence[Any]],
    arrays: Mapping[str, np.ndarray],
    listed: Mapping[str, Any],
    strategy: Any,
) -> None:
    """Assign the captured values.

    :raises InputError: if the variables are no longer the same.
    """
    reason = missing(groups, listed, strategy)
    if reason:
        raise InputError(
            f"the checkpoint does not fit the model: {reason}; train anew in another folder "
            "(--checkpoints)"
        )
    for group, entries in listed.items():
        for index, (*_, count) in enumerate(entries):
            for place, part in enumerate(_parts(groups[group][index], strategy)):
                array = arrays[f"{group}/{index}/{place if count > 1 else 0}"]
                dtype = part.dtype.as_numpy_dtype
                part.assign(array if array.dtype == dtype else array.view(dtype))


def groups_of(model: Any) -> dict[str, list[Any]]:
    """Return the variables of a model by group, as far as they are made.

    Those of the metrics are not among them: each epoch begins them anew.
    """
    groups = {"model": list(model.variables)}
    for index, optimizer in enumerate(optimizers_of(model)):
        name = "optimizer" if index == 0 else f"optimizer {index + 1}"
        groups[name] = list(optimizer.variables)
    return groups


def make_variables(built: Built, listed: Mapping[str, Any]) -> None:
    """Make the variables that Keras would make in the first step, where they are not made yet.

    A step is traced, but not run.
    """
    model = built.model
    with built.run.strategy.scope():
        for optimizer in optimizers_of(model)[:1]:
            if model.built and not optimizer.built:
                optimizer.build(model.trainable_variables)
        if missing(groups_of(model), listed, built.run.strategy):
            one_step(model, jit_compile=False).get_concrete_function(_batch_spec(built))


def _batch_spec(built: Built) -> Any:
    import tensorflow as tf

    if built.run.element_spec is not None:
        return built.run.element_spec
    first = built.run.datasets["train"][0]  # a PyDataset
    return tf.nest.map_structure(
        lambda part: tf.TensorSpec((None, *np.shape(part)[1:]), tf.convert_to_tensor(part).dtype),
        first,
    )


def _parts(variable: Any, strategy: Any) -> Sequence[Any]:
    """Return the `tf.Variable` of each replica of this process."""
    parts: Sequence[Any] = strategy.experimental_local_results(variable.value)
    return parts


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biufc" else array.view(_AS_BITS[array.dtype.itemsize])
