"""Store the state of a training in files, and compute how far two states differ."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.lazy import keras, np, tf
from tfopt_core.training.model.layers import nested_layers, optimizers_of

# The side without the stack may be under way at the same time, and takes longer. It begins at the
# same time: where it does not, it waits for what this side holds.
LONGEST_START, LONGEST_TRAINING = 60.0, 600.0


@attrs.define(eq=False)
class StateFiles:
    """Has a fit begin with the same variables on all sides, and compares what it leaves.

    Its methods are those of a callback that is called behind the others.

    :param variant: whose state is stored.
    :param against: the variant with which it is compared; "" for the side without the stack,
        whose initial variables all others take.
    :param difference: how far the final states differ; None on the first side.
    :param initial_difference: how far the variables differ that the model would begin with; None
        on the first side.
    """

    model: Any
    folder: Path
    variant: str
    against: str
    difference: float | None = None
    initial_difference: float | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Store the model's variables, or set them to those of the first side.

        :raises TfoptError: if they are not the same in number, types and shapes.
        """
        path, variables = self.folder / "initial.npz", self.model.variables
        if self.against:
            await_file(path, LONGEST_START)
            self.initial_difference = state_difference(path, variables)
            restore_variables(path, variables)
        else:
            save_variables(path, variables)

    def on_train_end(self, logs: Any = None) -> None:
        """Store the final state and compare it.

        :raises TfoptError: if the other one has other variables.
        """
        state = state_of(self.model)
        if self.against:
            await_file(self._final(self.against), LONGEST_TRAINING)
            self.difference = state_difference(self._final(self.against), state)
        save_variables(self._final(self.variant), state)

    def _final(self, variant: str) -> Path:
        return self.folder / f"final-{variant}.npz"


def state_of(model: Any) -> list[Any]:
    """Return what training changes: the variables of a model and of its optimizers, and those that
    are plain variables of TensorFlow."""
    plain = [
        value
        for part in (model, *nested_layers(model))
        for value in vars(part).values()
        if isinstance(value, tf.Variable)
    ]
    # what scales the loss has variables of its own
    own = [getattr(one, "inner_optimizer", one) for one in optimizers_of(model)]
    return [*model.variables, *plain, *(variable for one in own for variable in one.variables)]


def await_file(path: Path, longest: float) -> None:
    """Wait until the side without the stack has left a file.

    :param longest: for so many seconds at most.
    :raises TfoptError: if it has not.
    """
    end = time.monotonic() + longest
    while not path.exists():
        if time.monotonic() > end:
            raise TfoptError("the training without the stack left nothing to compare with")
        time.sleep(0.02)


def save_variables(path: Path, variables: Sequence[Any]) -> None:
    """Write the values to a `.npz` file, in order; nothing is pickled. It is there once it is
    whole."""
    begun = path.with_suffix(".part")
    with begun.open("wb") as file:
        np.savez(file, **{_key(i, v): _value(v) for i, v in enumerate(variables)})
    os.replace(begun, path)


def restore_variables(path: Path, variables: Sequence[Any]) -> None:
    """Set the variables to the values in such a file.

    :raises TfoptError: if they are not the same in number, types and shapes.
    """
    for variable, value in zip(variables, _values(path, variables), strict=True):
        variable.assign(value)


def state_difference(path: Path, variables: Sequence[Any]) -> float:
    """Return the largest difference to the variables in such a file.

    Each tensor's largest difference is divided by that tensor's largest magnitude on either side,
    so that a small bias counts as much as a large kernel.

    :raises TfoptError: if they are not the same in number, types and shapes.
    """
    largest = 0.0
    for variable, other in zip(variables, _values(path, variables), strict=True):
        value = _value(variable)
        if not np.array_equal(value, other, equal_nan=value.dtype.kind == "f"):
            ours, theirs = value.astype("float64"), other.astype("float64")
            scale = max(np.abs(ours).max(), np.abs(theirs).max())
            share = float(np.abs(ours - theirs).max() / scale)
            largest = max(largest, share if np.isfinite(share) else float("inf"))
    return largest


def _values(path: Path, variables: Sequence[Any]) -> list[Any]:
    with np.load(path, allow_pickle=False) as file:
        stored = {key: file[key] for key in file.files}
    ours = {_key(i, v): tuple(v.shape) for i, v in enumerate(variables)}
    if ours != {key: value.shape for key, value in stored.items()}:
        raise TfoptError("the trainings have different variables")
    return list(stored.values())


def _key(index: int, variable: Any) -> str:
    # no name: those of optimizers hold numbers of layers, which a process counts through
    return f"{index:05} {getattr(variable.dtype, 'name', variable.dtype)}"


def _value(variable: Any) -> Any:
    value = keras.ops.convert_to_numpy(variable)
    # NumPy's files know no bfloat16; float32 holds each of its values
    return value if value.dtype.kind in "biuf" else value.astype("float32")
