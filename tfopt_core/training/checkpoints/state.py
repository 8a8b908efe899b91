"""Capture and restore the state of a training: variables, callbacks, random numbers, data order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfopt_core.data.dissect import walk
from tfopt_core.errors import InputError
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.loops.graph_steps import one_step
from tfopt_core.training.model.layers import global_generator, optimizers_of

# Unsigned integers of a size, for the types that NumPy alone does not know (bfloat16, float8).
_AS_BITS = {1: np.uint8, 2: np.uint16}


def capture_variables(built: Built) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the values of a training's variables, and a description of them by group.

    An epoch ends with the same values on all replicas: their moving averages are averaged then.

    :returns: the arrays, and for each variable its path, type and shape.
    """
    arrays: dict[str, np.ndarray] = {}
    listed: dict[str, Any] = {}
    for group, variables in _variables_of(built).items():
        listed[group] = []
        for index, (path, parts) in enumerate(variables):
            value = np.asarray(parts[0].numpy())
            listed[group].append([path, value.dtype.name, list(value.shape)])
            arrays[f"{group}/{index}"] = _plain(value)
    return arrays, listed


def restore_variables(
    built: Built, arrays: Mapping[str, np.ndarray], listed: Mapping[str, Any]
) -> None:
    """Assign the captured values, in every replica of this process.

    The variables that Keras would make in the first step are made before: a step is traced for
    that, but not run.

    :raises InputError: if the variables are no longer the same.
    """
    model = built.model
    with built.run.strategy.scope():
        for optimizer in optimizers_of(model)[:1]:
            if model.built and not optimizer.built:
                optimizer.build(model.trainable_variables)
        if _missing(built, listed):
            one_step(model, jit_compile=False).get_concrete_function(_batch_spec(built))
        if reason := _missing(built, listed):
            raise InputError(
                f"the checkpoint does not fit the model: {reason}; train anew in another folder "
                "(--checkpoints)"
            )
        groups = _variables_of(built)
        for group in listed:
            for index, (_, parts) in enumerate(groups[group]):
                array = arrays[f"{group}/{index}"]
                for part in parts:
                    dtype = part.dtype.as_numpy_dtype
                    part.assign(array if array.dtype == dtype else array.view(dtype))


def _missing(built: Built, listed: Mapping[str, Any]) -> str:
    """Return how the variables differ from those listed, in words; "" if they do not."""
    groups = _variables_of(built)
    for group, before in listed.items():
        now = groups.get(group, [])
        if len(now) != len(before):
            return f"{len(before)} variables of the {group} are kept, and there are {len(now)}"
        for (_, [part, *_]), (path, dtype, shape) in zip(now, before, strict=True):
            if (part.dtype.name, list(part.shape)) != (dtype, shape):
                is_now = f"{part.dtype.name} {list(part.shape)}"
                return f'"{path}" is kept as {dtype} {shape}, and is {is_now}'
    return ""


def _variables_of(built: Built) -> dict[str, list[tuple[str, Sequence[Any]]]]:
    """Return the variables of a training by group, as far as they are made: the path of each, and
    its `tf.Variable` of each replica of this process.

    Those of the metrics are not among them: each epoch begins them anew.
    """
    local_results = built.run.strategy.experimental_local_results
    groups = {"model": built.model.variables}
    for index, optimizer in enumerate(optimizers_of(built.model)):
        groups["optimizer" if index == 0 else f"optimizer {index + 1}"] = optimizer.variables
    return {
        group: [(variable.path, local_results(variable.value)) for variable in variables]
        for group, variables in groups.items()
    }


def _batch_spec(built: Built) -> Any:
    if built.run.element_spec is not None:
        return built.run.element_spec
    first = built.run.datasets["train"][0]  # a PyDataset
    return tf.nest.map_structure(
        lambda part: tf.TensorSpec((None, *np.shape(part)[1:]), tf.convert_to_tensor(part).dtype),
        first,
    )


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biufc" else array.view(_AS_BITS[array.dtype.itemsize])


# The attributes that change during a training, by class.
_KNOWN: dict[str, tuple[str, ...]] = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch"),
    "ReduceLROnPlateau": ("wait", "cooldown_counter", "best"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
}
# Callbacks without a state, or with one that may begin anew.
_STATELESS = (
    "BackupAndRestore", "History", "LearningRateScheduler", "ProgbarLogger", "RemoteMonitor",
    "TensorBoard", "TerminateOnNaN",
)  # fmt: skip


def capture_callbacks(
    callbacks: Sequence[Any],
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return the states of the callbacks in order, {} for unknown classes, and their arrays."""
    states, arrays = [], {}
    for index, callback in enumerate(callbacks):
        names = _names(callback)
        states.append({name: _json_value(getattr(callback, name, None)) for name in names})
        weights = getattr(callback, "best_weights", None) if names else None
        if weights is not None:
            states[-1]["best_weights"] = len(weights)
            for place, weight in enumerate(weights):
                arrays[f"callback {index}/{place}"] = _plain(np.asarray(weight))
    return states, arrays


def restore_callbacks(
    callbacks: Sequence[Any],
    model: Any,
    states: Sequence[dict[str, Any]],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Restore the states, after all callbacks have begun the training."""
    for index, (callback, state) in enumerate(zip(callbacks, states, strict=True)):
        for name, value in state.items():
            if name != "best_weights":
                setattr(callback, name, value)
                continue
            weights = [arrays[f"callback {index}/{place}"] for place in range(value)]
            types = [np.asarray(weight).dtype for weight in model.get_weights()]
            callback.best_weights = [
                array if array.dtype == dtype else array.view(dtype)
                for array, dtype in zip(weights, types, strict=True)
            ]


def unknown_callbacks(callbacks: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes of callbacks of which it is unknown whether they have a state."""
    stateless = tuple(getattr(keras.callbacks, name) for name in _STATELESS)
    return tuple(
        dict.fromkeys(
            type(callback).__name__
            for callback in callbacks
            if not _names(callback)
            and not isinstance(callback, stateless)
            and not getattr(callback, "keeps_no_state", False)
        )
    )


def _names(callback: Any) -> tuple[str, ...]:
    for name, attributes in _KNOWN.items():
        if isinstance(callback, getattr(keras.callbacks, name)):
            return attributes
    return ()


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return np.asarray(value).item()


def capture_random() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and Keras' global generators, as JSON values."""
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    generator = global_generator()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), place, has_gauss, cached],
        "keras": None if generator is None else np.asarray(generator.state).tolist(),
    }


def restore_random(state: Mapping[str, Any]) -> None:
    """Restore the generators, Keras' own only if it was in use."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, place, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), place, has_gauss, cached))
    if state["keras"] is not None and not why_without("keras-random-state"):
        from keras.src.random.seed_generator import global_seed_generator

        global_seed_generator().state.assign(np.array(state["keras"]))


def make_iterators(built: Built, epochs: int) -> None:
    """Make the iterators over all data that `fit` makes in this many epochs.

    Keras makes one for each epoch. If it knows the number of batches, it makes another one at the
    epoch's end, which the next epoch replaces unread. The same holds for each validation. Under a
    distribution strategy, it also takes a batch before each validation (and before each `fit`,
    which it does again).
    """
    in_scope = not why_without("own-strategy") and built.model._distribute_strategy is not None
    cluster = built.run.cluster
    elsewhere = cluster is not None and cluster.coordinated  # workers read the training data
    for split, data in built.run.datasets.items():
        if isinstance(data, tf.data.Dataset) and not (elsewhere and split == "train"):
            pass_over(data, epochs, in_scope and split == "validation")


def pass_over(data: Any, epochs: int, takes_a_batch: bool) -> None:
    """Make and read iterators as Keras does in this many epochs, as far as it moves seeds."""
    read = walk.passes_to_read(data)
    for epoch in range(epochs):
        if takes_a_batch:
            first = iter(data)
            if read != "none":
                next(first, None)
        batches = iter(data)
        if read == "every" or (read == "first" and epoch == 0):
            # to the end, as Keras' prefetching does: only then is a cache filled
            for _ in batches:
                pass
        if walk.known_cardinality(data) is not None:
            iter(data)  # made at the epoch's end, and never read


def remembers_epochs(data: Any) -> bool:
    """Return whether the data are a PyDataset with its own `on_epoch_end`."""
    kind = keras.utils.PyDataset
    return isinstance(data, kind) and type(data).on_epoch_end is not kind.on_epoch_end
