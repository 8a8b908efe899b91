"""Models, optimizers' schedules and metrics of the drawn scripts.

Imported with TensorFlow, but runs no operation of it.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def mirror(replicas: int) -> None:
    """Have the script train under a strategy over so many parts of the CPU."""
    cpu, parts = tf.config.list_physical_devices("CPU")[0], [f"/cpu:{n}" for n in range(replicas)]
    if replicas > 1:
        virtual = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, virtual)
    tf.distribute.experimental_set_strategy(tf.distribute.MirroredStrategy(parts))


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


def unbuilt() -> Any:
    """Return two dense layers that learn their shapes from the data."""
    layers = keras.layers
    return keras.Sequential([layers.Dense(8, "relu", name="a"), layers.Dense(1, name="b")])


def mixed() -> Any:
    """Return two dense layers, of which "a" computes in bfloat16."""
    layers = keras.layers
    first = layers.Dense(8, "relu", name="a", dtype="mixed_bfloat16")
    return keras.Sequential([keras.Input((6,)), first, layers.Dense(1, dtype="float32")])


def penalized() -> Any:
    """Return a model of which layers add to the loss."""
    layers = keras.layers
    first = layers.Dense(8, "relu", kernel_regularizer="l2", name="a")
    second = layers.Dense(4, activity_regularizer=keras.regularizers.L1(0.01))
    return keras.Sequential([keras.Input((6,)), first, second, layers.Dense(1)])


def noisy() -> Any:
    """Return a model with Gaussian noise and dropout."""
    layers = keras.layers
    noise, gone = layers.GaussianNoise(0.3, seed=4), layers.GaussianDropout(0.3)
    return keras.Sequential(
        [keras.Input((6,)), noise, layers.Dense(8, "relu", name="a"), gone, layers.Dense(1)]
    )


class Jitter(keras.layers.Layer):
    """Adds in training what TensorFlow draws with the seed of the process."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            inputs += tf.cast(tf.random.normal(tf.shape(inputs), stddev=0.2), inputs.dtype)
        return inputs


def drawing() -> Any:
    """Return a model that draws by TensorFlow in each step."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((6,)), Jitter(), layers.Dense(8, "relu", name="a"), layers.Dense(1)]
    )


class Count(keras.layers.Layer):
    """Counts its calls in training, and adds their inverse."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        return inputs + 1.0 / (1.0 + keras.ops.cast(self.calls, inputs.dtype))


def counted() -> Any:
    """Return a model with a state that each step of the training changes."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "relu", name="a"), Count(), layers.Dense(1)]
    )


def nested() -> Any:
    """Return a model around another one, "a", whose first layer is frozen."""
    layers = keras.layers
    inner = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dense(4)],
        name="a",
    )
    inner.layers[0].trainable = False
    return keras.Sequential([keras.Input((6,)), inner, layers.Dense(1)])


def convolutional() -> Any:
    """Return a small network for images that augments them itself."""
    layers = keras.layers
    return keras.Sequential([
        keras.Input((6, 6, 1)), layers.Rescaling(0.5), layers.RandomFlip("horizontal", seed=2),
        layers.UpSampling2D(4), layers.Conv2D(8, 3, strides=2, padding="same", name="a"),
        layers.BatchNormalization(), layers.ReLU(), layers.Conv2D(8, 3, padding="same"),
        layers.GlobalAveragePooling2D(), layers.Dense(1),
    ])  # fmt: skip


def classifier() -> Any:
    """Return a model of three classes."""
    layers = keras.layers
    return keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu", name="a"), layers.Dense(3)])


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


class TwoOptimizers(keras.Model):
    """A subclass whose parts are trained by an optimizer each, with losses of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = keras.layers.Dense(8, "relu", name="a"), keras.layers.Dense(1)
        self.second = keras.optimizers.SGD(0.02)
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def call(self, inputs: Any) -> Any:
        return self.last(self.first(inputs))

    def train_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - self(x, training=True)))
        for part, optimizer in ((self.first, self.optimizer), (self.last, self.second)):
            weights = part.trainable_weights
            if weights:
                optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}

    def test_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        self.tracker.update_state(tf.reduce_mean(tf.abs(tf.cast(y, tf.float32) - self(x))))
        return {"loss": self.tracker.result()}


def own_update(model: Any, x: Any, y: Any) -> None:
    """Make an update in a loop of the script's own, eagerly and in a graph."""

    def update() -> None:
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(x, training=True))
            loss = sum(tf.reduce_mean(tf.square(one)) for one in outputs)
        weights = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    update()
    tf.function(update)()


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
