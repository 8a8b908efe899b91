"""Callbacks of the drawn scripts."""

from __future__ import annotations

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


class Keep(keras.callbacks.Callback):
    """Notes the weights at the end of each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        note("callback.weights", self.model.get_weights())


class Evaluate(keras.callbacks.Callback):
    """Evaluates and predicts at the end of each epoch."""

    def __init__(self, data: Any, steps: int | None = None) -> None:
        super().__init__()
        self.data, self.steps = data, steps

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        data = self.data if isinstance(self.data, tuple) else (self.data,)
        note("callback.evaluate", self.model.evaluate(*data, steps=self.steps, verbose=0))
        note("callback.predict", self.model.predict(data[0], steps=self.steps, verbose=0))


class Stop(keras.callbacks.Callback):
    """Ends the training at an epoch, or at a batch of it."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.epoch:
            self.model.stop_training = True


class StopAtBatch(keras.callbacks.Callback):
    """Ends the training at a batch of its first epoch."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.batch:
            self.model.stop_training = True


class Fail(keras.callbacks.Callback):
    """Raises at the end of an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        raise RuntimeError(f"a callback fails in epoch {epoch}")


class RatePerBatch(keras.callbacks.Callback):
    """Sets the learning rate for each batch."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.05 / (1 + batch)


class RatePerEpoch(keras.callbacks.Callback):
    """Sets the learning rate for each epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.05 / (1 + epoch)


class Clip(keras.callbacks.Callback):
    """Clips the weights at the end of each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        clip(self.model)


class ClipAtBatch(keras.callbacks.Callback):
    """Clips the weights at the end of each batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        clip(self.model)


class Shift(keras.callbacks.Callback):
    """Changes the weights of layer "a" at the end of each epoch, frozen or not."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for weight in self.model.get_layer("a").weights:
            weight.assign(weight * 0.9)


class Exchange(keras.callbacks.Callback):
    """Has a PyDataset yield other examples from the next epoch on."""

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.data = data

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.data.order = self.data.order[::-1]


def clip(model: Any) -> None:
    """Clip the weights of a model."""
    for weight in model.trainable_weights:
        weight.assign(keras.ops.clip(weight, -0.3, 0.3))


class Recompile(keras.callbacks.Callback):
    """Compiles the model anew at the end of the first epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0:
            self.model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")


class Freeze(keras.callbacks.Callback):
    """Freezes layer "a" at the end of an epoch; `trace` is how it has the step traced again."""

    def __init__(self, epoch: int = 0, trace: str = "") -> None:
        super().__init__()
        self.epoch, self.trace = epoch, trace

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch != self.epoch:
            return
        self.model.get_layer("a").trainable = False
        if self.trace == "force":
            self.model.make_train_function(force=True)
        elif self.trace == "none":
            self.model.train_function = None
