"""Data of the drawn scripts.

Imported with TensorFlow, but runs no operation of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pandas
import scipy.sparse
import tensorflow as tf

from support.drawn_fits.notes import note


def rows(count: int, kind: str = "plain", dtype: str = "float32", seed: int = 0) -> Any:
    """Return inputs of a kind, targets (of two or three classes), and a weight for each example."""
    random = np.random.default_rng(seed)
    x: Any = random.integers(0, 4, (count, 6)) if dtype == "uint8" else random.normal(
        size=(count, 6))  # fmt: skip
    y: Any = (x.sum(1, keepdims=True) > np.median(x.sum(1))).astype("float32")
    weights = random.uniform(0.5, 1.5, count).astype("float32")
    x = x.astype(dtype)
    if kind == "dict":
        x = {"left": x[:, :4], "right": x[:, 4:]}
    elif kind == "tuple":
        x = x[:, :4], x[:, 4:]
    elif kind == "tokens":
        x = np.where(np.arange(5) < random.integers(1, 6, (count, 1)), 1 + (x[:, :5] > 0), 0)
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


def slices(*arrays: Any) -> Any:
    """Return a data set of the rows."""
    return tf.data.Dataset.from_tensor_slices(arrays)


def with_noise() -> Any:
    """Return a function for a map that calls a layer of Keras."""
    layer = keras.layers.GaussianNoise(0.3, seed=3)
    return lambda x, *y: (layer(tf.cast(x, tf.float32), training=True), *y)


def sorted_with_noise() -> Any:
    """Return a function for a map that computes in a way that costs, and then draws."""
    layer = keras.layers.GaussianNoise(0.3, seed=5)

    def each(x: Any, *y: Any) -> Any:
        x = tf.sort(tf.cast(x, tf.float32), axis=0) * tf.random.uniform((), 1, 2)
        return (layer(x, training=True), *y)

    return each


def with_generator() -> Any:
    """Return a function for a map that draws from a generator of TensorFlow."""
    generator = tf.random.Generator.from_seed(3)
    return lambda x, *y: (tf.cast(x, tf.float32) + generator.normal(()), *y)


def in_python() -> Any:
    """Return a function for a map that computes in Python."""

    def each(x: Any, *y: Any) -> Any:
        found = tf.numpy_function(np.negative, [tf.cast(x, tf.float32)], tf.float32)
        return (tf.ensure_shape(found, x.shape), *y)

    return each


def drawing_in_python() -> Any:
    """Return a function for a map that draws in Python."""
    random = np.random.default_rng(5)

    def each(x: Any, *y: Any) -> Any:
        drawn = tf.numpy_function(lambda: np.float32(random.normal()), [], tf.float32)
        return (tf.cast(x, tf.float32) + tf.ensure_shape(drawn, ()), *y)

    return each


def paired_with_noise(data: Any) -> Any:
    """Return a data set with numbers of a data set that draws others in each epoch."""
    noise = tf.data.Dataset.random(seed=3, rerandomize_each_iteration=True)

    def each(given: Any, drawn: Any) -> Any:
        return (tf.cast(given[0], tf.float32) + tf.cast(drawn % 9, tf.float32), *given[1:])

    return tf.data.Dataset.zip((data, noise)).map(each)


def zipped(first: Any, *arrays: Any) -> Any:
    """Return a data set of the rows, of which the inputs alone are shuffled."""
    parts = (tf.data.Dataset.from_tensor_slices(array) for array in arrays)
    shuffled = tf.data.Dataset.from_tensor_slices(first).shuffle(40, seed=3)
    return tf.data.Dataset.zip((shuffled, *parts))


def _count(arrays: Any) -> int:
    return len(tf.nest.flatten(arrays)[0])


def generated(*arrays: Any) -> Any:
    """Return a data set of the rows out of a Python generator, which knows no count."""
    spec = tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape[1:], one.dtype), arrays)

    def each() -> Iterator[Any]:
        for index in range(_count(arrays)):
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


def batches(*arrays: Any, size: int, endless: bool = False, fresh: bool = False) -> Iterator[Any]:
    """Yield batches of the rows from Python; fresh ones hold noise that is drawn for each."""
    while True:
        for start in range(0, _count(arrays), size):
            batch = tf.nest.map_structure(lambda one: one[start : start + size], arrays)  # noqa: B023
            if fresh:
                batch = (batch[0] + np.random.normal(), *batch[1:])
            yield batch
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


def one_batch(data: Any) -> None:
    """Note the first batch of a data set, as a user looks at one."""
    for batch in data:
        note("looked at", tf.nest.flatten(batch))
        break
