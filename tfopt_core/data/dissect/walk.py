"""Examine a data set without taking it apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfopt_core.private_api import why_without


class NotUnderstood(Exception):
    """A data set is of an unknown kind; it stays in one piece."""


def require(*features: str) -> None:
    """Check that the installed TensorFlow has what these features need.

    :raises NotUnderstood: if it does not.
    """
    for feature in features:
        missing = why_without(feature)
        if missing:
            raise NotUnderstood(missing)


def known_cardinality(dataset: Any) -> int | None:
    """Return the number of elements, None if tf.data does not know it or it is infinite."""
    count = int(dataset.cardinality())
    return count if count >= 0 else None


def datasets(dataset: Any) -> Iterator[Any]:
    """Yield a data set and all that it is made from, each once, the last stage first."""
    left, seen = [dataset], set()
    while left:
        current = left.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if not why_without("data-sets"):
            left.extend(reversed(getattr(current, "_inputs", tuple)()))


def graphs(dataset: Any) -> Iterator[Any]:
    """Yield the graphs of all functions that a data set calls."""
    for current in datasets(dataset):
        for function in current._functions():
            yield function.function.graph


def class_name(dataset: Any) -> str:
    """Return the class name of a data set of TensorFlow, "" for a class of another library."""
    kind = type(dataset)
    return kind.__name__ if kind.__module__.startswith("tensorflow.python.data.") else ""


def stage_names(dataset: Any) -> Iterator[str]:
    """Return the class names of a data set and of all its inputs, the last stage first."""
    return (type(current).__name__.strip("_") for current in datasets(dataset))


def is_batched(dataset: Any) -> bool:
    """Return whether the stages of the data set yield batches."""
    for current in datasets(dataset):
        name = type(current).__name__
        if "Unbatch" in name:
            return False
        if "Batch" in name or ("GroupByWindow" in name and _batches_inside(current)):
            return True
    return False


def _batches_inside(dataset: Any) -> bool:
    """Return whether a function of the data set makes batches, as batching by length does."""
    functions = (function.function for function in dataset._functions())
    return any("Batch" in op.type for each in functions for op in each.graph.get_operations())


def has_stage(dataset: Any, word: str) -> bool:
    """Return whether a stage of the lowered data set has this word in its class name."""
    return any(word in name for name in stage_names(dataset))
