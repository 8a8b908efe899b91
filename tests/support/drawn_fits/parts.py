"""Data and models of the drawn scripts.

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

# Data


def rows(count: int, kind: str = "plain", dtype: str = "float32", seed: int = 0) -> Any:
    """Return inputs of a kind, targets of 0 and 1, and a weight for each example."""
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


def _count(arrays: Any) -> int:
    return len(tf.nest.flatten(arrays)[0])


def generated(*arrays: Any) -> Any:
    """Return a data set of the rows out of a Python generator, which knows no count."""
    spec = tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape[1:], one.dtype), arrays)

    def each() -> Iterator[Any]:
        for index in range(_count(arrays)):
            yield tf.nest.map_structure(lambda one: one[index], arrays)  # noqa: B023

    return tf.data.Dataset.from_generator(each, output_signature=spec)


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


# Models


def dense() -> Any:
    """Return two dense layers, "a" and "b"."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "relu", name="a"), layers.Dense(1, name="b")]
    )


def deep() -> Any:
    """Return a chain of layers that hold more than their inputs, the first one "a"."""
    layers = [keras.layers.Dense(16, "tanh", name="abcdef"[index]) for index in range(6)]
    return keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])


def dropout() -> Any:
    """Return a functional model with dropout."""
    inputs = keras.Input((6,))
    hidden = keras.layers.Dropout(0.4)(keras.layers.Dense(8, "relu", name="a")(inputs))
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def normalized() -> Any:
    """Return a functional model with batch normalization."""
    inputs = keras.Input((6,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8, name="a")(inputs))
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def two_inputs(kind: str) -> Any:
    """Return a model whose inputs are a "dict" or a "tuple"."""
    left, right = keras.Input((4,), name="left"), keras.Input((2,), name="right")
    hidden = keras.layers.Concatenate()([keras.layers.Dense(4, "tanh", name="a")(left), right])
    inputs = {"left": left, "right": right} if kind == "dict" else (left, right)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def two_outputs() -> Any:
    """Return a model of the outputs "one" and "two"."""
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8, "relu", name="a")(inputs)
    outputs = {name: keras.layers.Dense(1, name=name)(hidden) for name in ("one", "two")}
    return keras.Model(inputs, outputs)


def recurrent() -> Any:
    """Return a model of tokens, of which 0 is masked."""
    layers = keras.layers
    tokens = layers.Embedding(3, 4, mask_zero=True, name="a")
    return keras.Sequential([keras.Input((5,)), tokens, layers.GRU(4), layers.Dense(1)])


@keras.saving.register_keras_serializable("drawn")
class OwnStep(keras.Model):
    """A subclass with a train step of its own.

    :param logs: "metrics" for logs that are metrics, "values" for others.
    """

    def __init__(self, logs: str = "metrics") -> None:
        super().__init__()
        self.logs = logs
        self.hidden = keras.layers.Dense(8, "relu", name="a")
        self.out = keras.layers.Dense(1)
        self.own = keras.metrics.Mean(name="own")

    def call(self, inputs: Any) -> Any:
        return self.out(self.hidden(inputs))

    def train_step(self, data: Any) -> Any:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted, weights)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        if self.logs == "values":
            return {"loss": loss, "norm": tf.linalg.global_norm(gradients)}
        self.own.update_state(loss)
        return self.compute_metrics(x, y, predicted, weights)


class Rows(keras.metrics.Metric):
    """Counts the examples, of an epoch or, if it is kept, of the whole training."""

    def __init__(self, name: str = "rows", kept: bool = False) -> None:
        super().__init__(name=name)
        self.kept = kept
        self.count = self.add_weight(name="count", initializer="zeros", dtype="float32")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign_add(tf.cast(tf.shape(y_pred)[0], "float32"))

    def result(self) -> Any:
        return self.count + 0.0

    def reset_state(self) -> None:
        if not self.kept:
            self.count.assign(0.0)
