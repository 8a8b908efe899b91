"""Store a model's variables in a file, and compute how far two models' weights differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfopt_core.errors import ReplayImpossible


def save_variables(path: Path, variables: Sequence[Any]) -> None:
    """Write the values to a `.npz` file, in order, under their names; nothing is pickled."""
    import numpy as np

    with path.open("wb") as file:
        np.savez(file, **{_key(i, v): _value(v) for i, v in enumerate(variables)})


def restore_variables(path: Path, variables: Sequence[Any]) -> None:
    """Set the variables to the values in such a file.

    :raises ReplayImpossible: if they are not the same in number, names and shapes.
    """
    for variable, value in zip(variables, _values(path, variables), strict=True):
        variable.assign(value)


def weight_difference(path: Path, weights: Sequence[Any]) -> float:
    """Return the largest difference to the weights in such a file.

    Each tensor's largest difference is divided by that tensor's largest magnitude on either side,
    so that a small bias counts as much as a large kernel.

    :raises ReplayImpossible: if they are not the same in number, names and shapes.
    """
    import numpy as np

    largest = 0.0
    for weight, other in zip(weights, _values(path, weights), strict=True):
        value = _value(weight)
        if not np.array_equal(value, other, equal_nan=value.dtype.kind == "f"):
            ours, theirs = value.astype("float64"), other.astype("float64")
            scale = max(np.abs(ours).max(), np.abs(theirs).max())
            share = float(np.abs(ours - theirs).max() / scale)
            largest = max(largest, share if np.isfinite(share) else float("inf"))
    return largest


def _values(path: Path, variables: Sequence[Any]) -> list[Any]:
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        stored = {key: file[key] for key in file.files}
    ours = {_key(i, v): tuple(v.shape) for i, v in enumerate(variables)}
    if ours != {key: value.shape for key, value in stored.items()}:
        raise ReplayImpossible("the models have different variables")
    return list(stored.values())


def _key(index: int, variable: Any) -> str:
    # not the whole path: Keras numbers the layers differently if a process has built others
    return f"{index:05} {variable.name}"


def _value(variable: Any) -> Any:
    import keras

    value = keras.ops.convert_to_numpy(variable)
    # NumPy's files know no bfloat16; float32 holds each of its values
    return value if value.dtype.kind in "biuf" else value.astype("float32")
