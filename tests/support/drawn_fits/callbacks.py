"""Callbacks of the drawn scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from support.drawn_fits.notes import note


class Seen(keras.callbacks.Callback):
    """Notes what it sees of epochs."""

    def on_train_begin(self, logs: Any = None) -> None:
        note("callback.train begin", [self.params, logs or {}])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        note("callback.epoch begin", [epoch, logs or {}])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        note("callback.epoch end", [epoch, logs, self.model.optimizer.iterations])

    def on_test_end(self, logs: Any = None) -> None:
        note("callback.test end", logs)

    def on_train_end(self, logs: Any = None) -> None:
        note("callback.train end", logs)


class SeenBatches(Seen):
    """Notes what it sees of epochs and batches."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        note("callback.batch begin", batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        note("callback.batch end", [batch, logs])

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        note("callback.test batch end", [batch, logs])


class SeenCheckpoint(keras.callbacks.ModelCheckpoint):
    """A checkpoint of each epoch that notes what it sees of batches."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        note("callback.checkpoint batch end", [batch, logs])


def acting(hook: str, act: Callable[[Any, int], Any]) -> Any:
    """Return a callback of one method, which acts on the model at a number: an epoch or a batch."""

    def method(self: Any, number: int, logs: Any = None) -> None:
        act(self.model, number)

    return type(act.__name__, (keras.callbacks.Callback,), {hook: method})()


def evaluate(data: Any, steps: int | None = None) -> Any:
    """Evaluate and predict at the end of each epoch."""

    def evaluated(model: Any, epoch: int) -> None:
        whole = data if isinstance(data, tuple) else (data,)
        note("callback.evaluate", model.evaluate(*whole, steps=steps, verbose=0))
        note("callback.predict", model.predict(whole[0], steps=steps, verbose=0))

    return acting("on_epoch_end", evaluated)


def exchange(data: Any) -> Any:
    """Have a PyDataset yield other examples from the next epoch on."""

    def exchanged(model: Any, epoch: int) -> None:
        data.order = data.order[::-1]

    return acting("on_epoch_end", exchanged)


def freeze(trace: str = "") -> Any:
    """Freeze layer "a" behind the first epoch; `trace` is how it has the step traced again."""

    def frozen(model: Any, epoch: int) -> None:
        if epoch:
            return
        model.get_layer("a").trainable = False
        if trace == "force":
            model.make_train_function(force=True)
        elif trace == "none":
            model.train_function = None

    return acting("on_epoch_end", frozen)


def keep(model: Any, epoch: int) -> None:
    """Note the weights."""
    note("callback.weights", model.get_weights())


def stop(number: int) -> Callable[[Any, int], None]:
    """End the training at an epoch or a batch of this number."""

    def stopped(model: Any, at: int) -> None:
        if at == number:
            model.stop_training = True

    return stopped


def fail(model: Any, epoch: int) -> None:
    """Raise."""
    raise RuntimeError(f"a callback fails in epoch {epoch}")


def rate(model: Any, number: int) -> None:
    """Set the learning rate by the number."""
    model.optimizer.learning_rate = 0.05 / (1 + number)


def clip(model: Any, number: int) -> None:
    """Clip the weights."""
    for weight in model.trainable_weights:
        weight.assign(keras.ops.clip(weight, -0.3, 0.3))


def shift(model: Any, epoch: int) -> None:
    """Change the weights of layer "a", frozen or not."""
    for weight in model.get_layer("a").weights:
        weight.assign(weight * 0.9)


def recompile(model: Any, epoch: int) -> None:
    """Compile the model anew at the end of the first epoch."""
    if epoch == 0:
        model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
