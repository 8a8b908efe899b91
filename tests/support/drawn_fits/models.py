"""Models of the drawn scripts, their layers, metrics and schedules.

Imported with TensorFlow, but runs no operation of it. Each model is made of hidden layers that the
script names; "a" is the layer that scripts freeze.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import layers


def mirror(replicas: int) -> None:
    """Have the script train under a strategy over so many parts of the CPU."""
    cpu, parts = tf.config.list_physical_devices("CPU")[0], [f"/cpu:{n}" for n in range(replicas)]
    if replicas > 1:
        virtual = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, virtual)
    tf.distribute.experimental_set_strategy(tf.distribute.MirroredStrategy(parts))


def sequential(*hidden: Any, units: int = 1) -> Any:
    """Return the layers in a row."""
    return keras.Sequential([keras.Input((6,)), *hidden, layers.Dense(units)])


def unbuilt(*hidden: Any, units: int = 1) -> Any:
    """Return the layers in a row, which learn their shapes from the data."""
    return keras.Sequential([*hidden, layers.Dense(units)])


def functional(*hidden: Any, units: int = 1) -> Any:
    """Return the layers with a connection past them."""
    inputs = keras.Input((6,))
    joined = layers.Concatenate()([_through(hidden, inputs), inputs])
    return keras.Model(inputs, layers.Dense(units)(joined))


def shared(*hidden: Any, units: int = 1) -> Any:
    """Return a model that calls each of the layers twice, with another one between."""
    inputs = keras.Input((6,))
    between = layers.Dense(6)(_through(hidden, inputs))
    return keras.Model(inputs, layers.Dense(units)(_through(hidden, between)))


def nested(*hidden: Any, units: int = 1, training: bool | None = None) -> Any:
    """Return a model around one of the layers, "a", that is called as in `training`."""
    inner = keras.Sequential([keras.Input((6,)), *hidden], name="a")
    inputs = keras.Input((6,))
    outputs = layers.Dense(units)(layers.Dropout(0.2)(inner(inputs, training=training)))
    return keras.Model(inputs, outputs)


def deep(units: int = 1) -> Any:
    """Return a chain of layers that hold more than their inputs, the first one "a"."""
    return sequential(*(layers.Dense(16, "tanh", name=name) for name in "abcdef"), units=units)


def two_inputs(*hidden: Any, kind: str) -> Any:
    """Return a model whose inputs are a "dict" or a "tuple"."""
    left, right = keras.Input((4,), name="left"), keras.Input((2,), name="right")
    joined = layers.Concatenate()([_through(hidden, left), right])
    inputs = {"left": left, "right": right} if kind == "dict" else (left, right)
    return keras.Model(inputs, layers.Dense(1)(joined))


def two_outputs(*hidden: Any) -> Any:
    """Return a model of the outputs "one" and "two"."""
    inputs = keras.Input((6,))
    behind = _through(hidden, inputs)
    return keras.Model(
        inputs, {name: layers.Dense(1, name=name)(behind) for name in ("one", "two")}
    )


def _through(hidden: Any, values: Any) -> Any:
    for layer in hidden:
        values = layer(values)
    return values


class Subclass(keras.Model):
    """A subclass that calls the layers."""

    def __init__(self, *hidden: Any, units: int = 1) -> None:
        super().__init__()
        self.hidden, self.out = list(hidden), layers.Dense(units)

    def call(self, inputs: Any, training: bool = False) -> Any:
        # `training` reaches the layers as the argument of the call around them
        return self.out(_through(self.hidden, inputs))


class OwnTrainStep(Subclass):
    """A train step of its own, of which the logs are metrics."""

    def train_step(self, data: Any) -> Any:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted, weights)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.logs(loss, x, y, predicted, weights)

    def logs(self, loss: Any, *batch: Any) -> Any:
        """Return the metrics."""
        return self.compute_metrics(*batch)


class OwnValues(OwnTrainStep):
    """A train step of its own, of which the logs are values of the batch."""

    def logs(self, loss: Any, *batch: Any) -> Any:
        return {"loss": loss, "rows": tf.shape(batch[2])[0]}


class OwnTestStep(Subclass):
    """A test step of its own, and a loss with a part of its own."""

    def test_step(self, data: Any) -> Any:
        return {**super().test_step(data), "largest": tf.reduce_max(self(data[0]))}

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *rest: Any,
                     **named: Any) -> Any:  # fmt: skip
        loss = super().compute_loss(x, y, y_pred, *rest, **named)
        return loss + 0.01 * tf.reduce_mean(tf.square(y_pred))


class TwoOptimizers(Subclass):
    """A model whose parts are trained by an optimizer each, with losses of its own."""

    def __init__(self, *hidden: Any) -> None:
        super().__init__(*hidden)
        self.second = keras.optimizers.SGD(0.02)
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def train_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - self(x, training=True)))
        last = self.out.trainable_weights
        first = [one for one in self.trainable_weights if all(one is not other for other in last)]
        for weights, optimizer in ((first, self.optimizer), (last, self.second)):
            if weights:
                optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}

    def test_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        self.tracker.update_state(tf.reduce_mean(tf.abs(tf.cast(y, tf.float32) - self(x))))
        return {"loss": self.tracker.result()}


class Jitter(layers.Layer):
    """Adds in training what TensorFlow draws with the seed of the process."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            inputs += tf.cast(tf.random.normal(tf.shape(inputs), stddev=0.2), inputs.dtype)
        return inputs


class Count(layers.Layer):
    """Counts its calls in training, adds their inverse, and adds to the loss."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        self.add_loss(0.01 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs + 1.0 / (1.0 + keras.ops.cast(self.calls, inputs.dtype))


class Halved(keras.optimizers.schedules.LearningRateSchedule):
    """Halves the rate every five steps."""

    def __call__(self, step: Any) -> Any:
        return 0.02 * tf.pow(0.5, tf.floor(tf.cast(step, tf.float32) / 5.0))

    def get_config(self) -> dict[str, Any]:
        return {}


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
