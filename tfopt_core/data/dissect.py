"""The one module that touches private attributes of TensorFlow's data side.

`_inputs()`, the class names of data sets and the registry of ops are no public interface; tests
assert for the installed TensorFlow that they still say what is read here. Where they do not, a
data set is taken as it is: opaque, and of unknown make.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def known_cardinality(dataset: Any) -> int | None:
    """The number of elements, None where tf.data does not know it or it is infinite."""
    count = int(dataset.cardinality())
    return count if count >= 0 else None


def chain(dataset: Any) -> Iterator[str]:
    """The class names of a data set and of all its inputs, the last stage first."""
    yield type(dataset).__name__.strip("_")
    for parent in getattr(dataset, "_inputs", tuple)():
        yield from chain(parent)


def is_batched(dataset: Any) -> bool:
    """Whether the data set's own stages put examples into batches and leave them there."""
    for name in chain(dataset):
        if "Unbatch" in name:
            return False
        if "Batch" in name:
            return True
    return False


def has_stage(dataset: Any, word: str) -> bool:
    """Whether a stage with this word in its class name is part of the lowered data set."""
    return any(word in name for name in chain(dataset))


def is_stateful_op(name: str) -> bool:
    """Whether TensorFlow registers the op as stateful: random, or with a side effect."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(name)
    return definition is None or bool(definition.is_stateful)
