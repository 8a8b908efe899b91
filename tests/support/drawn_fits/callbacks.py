"""Callbacks of the drawn scripts, and what they do to a model that is more than an expression."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from support.drawn_fits.data import rows
from support.drawn_fits.models import sequential
from support.drawn_fits.notes import note

EPOCHS = ("train_begin", "epoch_begin", "epoch_end", "test_end", "train_end")
BATCHES = ("train_batch_begin", "train_batch_end", "test_batch_end")


def noting(*hooks: str) -> Any:
    """Return a callback that notes what Keras gives to these hooks."""

    def method(hook: str) -> Callable[..., None]:
        def seen(self: Any, *arguments: Any, logs: Any = None) -> None:
            count = self.model.optimizer.iterations if hook == "epoch_end" else None
            note(f"callback.{hook}", [arguments, logs or {}, self.params, count])

        return seen

    methods = {f"on_{hook}": method(hook) for hook in hooks}
    return type("Noting", (keras.callbacks.Callback,), methods)()


class SeenCheckpoint(keras.callbacks.ModelCheckpoint):
    """A checkpoint of each epoch that notes what it sees of batches."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        note("callback.checkpoint batch end", [batch, logs])


class MoreLogs(keras.callbacks.Callback):
    """Adds to the logs of an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["more"] = 2.0 * epoch


def at(hook: str, call: int | None, action: Callable[[Any], Any]) -> Any:
    """Return a callback that acts on the model at one call of a hook, at each one for None."""
    calls = 0

    def method(self: Any, *arguments: Any, logs: Any = None) -> None:
        nonlocal calls
        calls += 1
        if call in (None, calls - 1):
            action(self.model)

    return type(f"At_{hook}", (keras.callbacks.Callback,), {hook: method})()


def fail(error: type[BaseException] = RuntimeError) -> None:
    """Raise, for what Ctrl-C does a KeyboardInterrupt."""
    raise error("a callback fails")


def toggle(layer: Any) -> None:
    """Freeze a layer or a model, or thaw it, without a compile."""
    layer.trainable = not layer.trainable


def scale_weights(layer: Any) -> None:
    """Change the weights of a layer, frozen or not."""
    for weight in layer.weights:
        weight.assign(keras.ops.cast(weight, "float32") * 0.9)


def other_dropout(model: Any) -> None:
    """Set the rate of each dropout, which Keras reads when it traces a step."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.6


def evaluate_on(model: Any, *data: Any, steps: int | None = None) -> None:
    """Note what the model makes of other rows, or of the data of a fit."""
    note("evaluated", model.evaluate(*data, steps=steps, verbose=0))
    note("predicted", model.predict(data[0], steps=steps, verbose=0))


def update_on(model: Any, x: Any) -> None:
    """Make updates of the script's own, eagerly and in a graph."""

    def update() -> None:
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(x, training=True))
            loss = sum(tf.reduce_mean(tf.square(one)) for one in outputs)
        weights = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    update()
    tf.function(update)()


def fit_other() -> None:
    """Train another model."""
    other = sequential(keras.layers.Dropout(0.3))
    other.compile(optimizer="adam", loss="mse")
    note("other", other.fit(*rows(12)[:2], batch_size=5, epochs=2, verbose=0).history)
