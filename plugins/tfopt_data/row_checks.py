"""Whether a map over batches makes each row of one row alone, found out on real batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfopt_data.vectorizing import cause_of

# What a function that is checked takes and returns: an element with all its leaves.
Call = Callable[[Any], Any]


def mixed_rows(call: Call, rows: Any, size: int, *, fixed: bool) -> str:
    """Return how the rows of a result depend on what shares their batch, "" if they do not.

    What the function makes of batches of `size` rows must be what it makes of the same rows in
    another order, in larger and smaller batches, repeated, and once again: bit by bit.

    :param rows: some batches' rows in one element; at least one batch.
    :param fixed: whether the function takes batches of `size` rows only.
    """
    import numpy as np

    count = row_count(rows)
    parts = [np.arange(start, min(start + size, count)) for start in range(0, count, size)]
    if fixed and len(parts[-1]) < size:
        parts.pop()
    try:
        made = [leaves_of(call(rows_at(rows, part))) for part in parts]
    except Exception as error:  # whatever the workload's function raises
        return f"fails ({cause_of(error)})"
    for leaves, part in zip(made, parts, strict=True):
        if any(leaf.ndim == 0 or len(leaf) != len(part) for leaf in leaves):
            return "does not make one row of each row"
    columns = list(zip(*made, strict=True))
    if any(len({leaf.shape[1:] for leaf in column}) > 1 for column in columns):
        return "makes longer or shorter rows in some batches (pad to a fixed length)"
    expected = [np.concatenate(column) for column in columns]
    for how, places in _arrangements(sum(map(len, parts)), size, fixed):
        try:
            leaves = leaves_of(call(rows_at(rows, places)))
        except Exception as error:
            return f"fails {how} ({cause_of(error)})"
        if differ(leaves, expected, places):
            return f"makes something else of the same rows {how}"
    return ""


def differ(leaves: list[Any], expected: list[Any], places: Any) -> bool:
    """Return whether the leaves are not, bit by bit, the expected rows at these places."""
    return any(
        leaf.shape != column[places].shape or leaf.tobytes() != column[places].tobytes()
        for leaf, column in zip(leaves, expected, strict=True)
    )


def unkept(result: Any) -> str:
    """Return what of a traced result cannot be kept in arrays of rows, "" if all can."""
    import tensorflow as tf

    for leaf in tf.nest.flatten(result):
        if not isinstance(leaf, tf.Tensor):
            return f"makes a {type(leaf).__name__}, which is not kept by rows"
        if not (leaf.dtype.is_integer or leaf.dtype.is_floating or leaf.dtype.is_bool):
            return f"makes {leaf.dtype.name}, which is not kept by rows"
    return ""


def is_of_rows(element: Any) -> bool:
    """Return whether all leaves are dense tensors that share their first axis."""
    import tensorflow as tf

    leaves = tf.nest.flatten(element)
    if not all(isinstance(leaf, tf.Tensor) and leaf.shape.rank for leaf in leaves):
        return False
    return len({leaf.shape[0] for leaf in leaves}) == 1


def row_count(element: Any) -> int:
    """Return the length of the first axis."""
    import tensorflow as tf

    return int(tf.nest.flatten(element)[0].shape[0])


def rows_at(element: Any, places: Any) -> Any:
    """Return an element of the rows at these places."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda leaf: tf.gather(leaf, places), element)


def leaves_of(element: Any) -> list[Any]:
    """Return the leaves as NumPy arrays."""
    import tensorflow as tf

    return [leaf.numpy() for leaf in tf.nest.flatten(element)]


def _arrangements(count: int, size: int, fixed: bool) -> Iterator[tuple[str, Any]]:
    """Yield batches as places of rows, and in words what is special about them."""
    import numpy as np

    mixed = np.random.default_rng(0).permutation(count)
    first = np.arange(min(size, count))
    yield "the second time", first
    yield "where each is repeated", first // 2
    if fixed:
        yield "in another order", mixed[:size]
        yield "in a batch of one row repeated", np.zeros_like(first)
        return
    yield "in another order", mixed
    yield "in a larger batch", np.arange(count)
    yield "in a smaller batch", first[: len(first) // 2 + 1]
    yield "one at a time", mixed[:1]
