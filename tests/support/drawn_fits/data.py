"""Data of the drawn scripts.

Imported with TensorFlow, but runs no operation of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pandas
import scipy.sparse
import tensorflow as tf


def rows(count: int, kind: str = "plain", dtype: str = "float32", seed: int = 0) -> Any:
    """Return inputs of a kind, targets (of two or three classes), and a weight for each example."""
    random = np.random.default_rng(seed)
    x: Any = random.normal(size=(count, 6))
    if dtype in ("uint8", "int32"):
        x = random.integers(0, 4, (count, 6))
    y: Any = (x.sum(1, keepdims=True) > np.median(x.sum(1))).astype("float32")
    weights = random.uniform(0.5, 1.5, count).astype("float32")
    x = x.astype(dtype)
    if kind == "dict":
        x = {"left": x[:, :4], "right": x[:, 4:]}
    elif kind == "tuple":
        x = x[:, :4], x[:, 4:]
    elif kind == "tokens":
        x = np.where(np.arange(5) < random.integers(1, 6, (count, 1)), 1 + (x[:, :5] > 0), 0)
    elif kind == "series":
        x = x.reshape(count, 3, 2)
    elif kind == "outputs":
        y = {"one": y, "two": 1 - y}
    elif kind == "classes":
        y = (np.argsort(x.sum(1)) % 3).astype("int64")
    elif kind == "images":
        x = np.repeat(x, 6, 1).reshape(count, 6, 6, 1)
    return x, y, weights


def as_tensors(values: Any) -> Any:
    """Return arrays as tensors."""
    return tf.nest.map_structure(tf.convert_to_tensor, values)


def as_frame(values: Any) -> Any:
    """Return a matrix as a DataFrame, a column as a Series."""
    if values.shape[1] == 1:
        return pandas.Series(values[:, 0])
    return pandas.DataFrame(values, columns=[f"c{index}" for index in range(values.shape[1])])


def as_sparse(values: Any) -> Any:
    """Return a matrix of the compressed sparse row format."""
    return scipy.sparse.csr_matrix(np.where(values > 0, values, 0))


def first(count: int, values: Any) -> Any:
    """Return the first examples of arrays."""
    return tf.nest.map_structure(lambda one: one[:count], values)


def slices(*arrays: Any) -> Any:
    """Return a data set of the rows."""
    return tf.data.Dataset.from_tensor_slices(arrays)


def gathered(*arrays: Any) -> Any:
    """Return a data set of the rows by their numbers."""
    numbers, tensors = tf.data.Dataset.range(_count(arrays)), as_tensors(arrays)
    return numbers.map(lambda at: tf.nest.map_structure(lambda one: one[at], tensors))


def zipped(inputs: Any, *arrays: Any) -> Any:
    """Return a data set of the rows, of which the inputs alone are shuffled."""
    parts = (tf.data.Dataset.from_tensor_slices(array) for array in arrays)
    shuffled = tf.data.Dataset.from_tensor_slices(inputs).shuffle(40, seed=3)
    return tf.data.Dataset.zip((shuffled, *parts))


def generated(*arrays: Any, failing: int | None = None) -> Any:
    """Return a data set of the rows out of a Python generator, which knows no count.

    :param failing: the row at which it raises.
    """
    spec = tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape[1:], one.dtype), arrays)

    def each() -> Iterator[Any]:
        for index in range(_count(arrays)):
            if index == failing:
                raise ValueError("a generator fails")
            yield tf.nest.map_structure(lambda one: one[index], arrays)  # noqa: B023

    return tf.data.Dataset.from_generator(each, output_signature=spec)


def records(*arrays: Any) -> Any:
    """Return a data set of the rows out of three files, read one after another."""
    names = [f"{index}.records" for index in range(3)]
    for index, name in enumerate(names):
        with tf.io.TFRecordWriter(name) as writer:
            for row in zip(*(one[index::3] for one in arrays), strict=True):
                parts = [tf.io.serialize_tensor(part).numpy() for part in row]
                writer.write(tf.io.serialize_tensor(parts).numpy())

    def parsed(record: Any) -> Any:
        found = tf.unstack(tf.ensure_shape(tf.io.parse_tensor(record, tf.string), len(arrays)))
        return tuple(
            tf.ensure_shape(tf.io.parse_tensor(part, one.dtype), one.shape[1:])
            for part, one in zip(found, arrays, strict=True)
        )

    return tf.data.Dataset.from_tensor_slices(names).flat_map(tf.data.TFRecordDataset).map(parsed)


def on_inputs(function: Callable[[Any], Any]) -> Any:
    """Return a function for a map that changes each input, as floating-point numbers."""

    def each(x: Any, *y: Any) -> Any:
        return (tf.nest.map_structure(lambda one: function(tf.cast(one, tf.float32)), x), *y)

    return each


def in_python(function: Callable[[Any], Any], x: Any) -> Any:
    """Return what a function of NumPy makes of a tensor."""
    return tf.ensure_shape(tf.numpy_function(function, [x], tf.float32), x.shape)


def with_noise(data: Any) -> Any:
    """Return a data set with numbers of a data set that draws others in each epoch."""
    noise = tf.data.Dataset.random(seed=3, rerandomize_each_iteration=True)

    def each(given: Any, drawn: Any) -> Any:
        added = on_inputs(lambda x: x + tf.cast(drawn % 9, tf.float32))
        return added(*given)

    return tf.data.Dataset.zip((data, noise)).map(each)


def batches(*arrays: Any, size: int, endless: bool = False, fresh: bool = False,
            failing: int | None = None) -> Iterator[Any]:  # fmt: skip
    """Yield batches of the rows from Python; fresh ones hold noise that is drawn for each.

    :param failing: the row from which on it raises.
    """
    while True:
        for start in range(0, _count(arrays), size):
            if failing is not None and start >= failing:
                raise ValueError("a generator fails")
            batch = tf.nest.map_structure(lambda one: one[start : start + size], arrays)  # noqa: B023
            yield (batch[0] + np.random.normal(), *batch[1:]) if fresh else batch
        if not endless:
            return


class Batches(keras.utils.PyDataset):
    """Batches of the rows, whose examples are exchanged at the end of an epoch if wanted."""

    def __init__(self, *arrays: Any, size: int, mixed: bool = False, fresh: bool = False) -> None:
        super().__init__()
        self.arrays, self.size, self.mixed, self.fresh = arrays, size, mixed, fresh
        self.order = np.arange(_count(arrays))

    def __len__(self) -> int:
        return -(-len(self.order) // self.size)

    def __getitem__(self, index: int) -> Any:
        chosen = self.order[index * self.size : (index + 1) * self.size]
        batch = tf.nest.map_structure(lambda one: one[chosen], self.arrays)
        return (batch[0] + np.random.normal(), *batch[1:]) if self.fresh else batch

    def on_epoch_end(self) -> None:
        if self.mixed:
            np.random.shuffle(self.order)


def _count(arrays: Any) -> int:
    return len(tf.nest.flatten(arrays)[0])
