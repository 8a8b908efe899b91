"""What the tests of several workers train: everything that several replicas may get wrong.

Copied beside the recipe, so that each process of a cluster imports it from there.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from tfopt_core import Workload

FEATURES = 8


def build(
    count: int = 97, ids: str = "", regularized: bool = True, weighted: bool = False,
    recording: bool = True, normalized: bool = False, dies: bool = False,
) -> Workload:  # fmt: skip
    """A classification whose `train_step` writes the ids of its examples to a file.

    :param count: of the examples; the last batch is smaller unless the batch size divides it.
    :param ids: the file, to which the process' number is added.
    :param normalized: with batch normalization, whose averages are each worker's own.
    :param dies: worker 1 is killed in the second epoch, the first time that it gets there.
    """
    import keras

    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, FEATURES)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("int32")
    # from 1 on: a row that stands in for no example has the id 0
    numbered = np.stack([np.arange(1, count + 1, dtype="int32"), y], axis=1)

    def build_model() -> Any:
        penalty = "l2" if regularized else None
        inputs = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(16, activation="relu", kernel_regularizer=penalty)(inputs)
        if normalized:
            hidden = keras.layers.BatchNormalization()(hidden)
        outputs = keras.layers.Dense(2)(hidden)
        if not recording:
            return keras.Model(inputs, outputs)
        return _recording(keras.Model)(inputs, outputs, ids=f"{ids}-{os.getpid()}")

    def loss(true: Any, predicted: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(true[:, 1], predicted, from_logits=True)

    def accuracy(true: Any, predicted: Any) -> Any:
        return keras.metrics.sparse_categorical_accuracy(true[:, 1], predicted)

    return Workload(
        train=(x, numbered),
        validation=(x[:33], numbered[:33]),
        build_model=build_model,
        optimizer=lambda: keras.optimizers.Adam(0.01),
        loss=loss,
        metrics=[accuracy],
        callbacks=lambda: (
            [_dying(keras.callbacks.Callback)()]
            if dies
            else [_asking(keras.callbacks.Callback)(x, numbered)]
        ),
        quality_metric="val_accuracy",
        quality_direction="max",
    )


def overflowing(count: int = 64) -> Workload:
    """A regression of which one example, in the last worker's part, overflows in float16."""
    import keras

    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, FEATURES)).astype("float32")
    y = x.sum(axis=1)
    x[-1] *= 100

    def build_model() -> Any:
        layers = [keras.Input((FEATURES,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
        return keras.Sequential(layers)

    return Workload(
        train=(x, y), validation=(x[:16], y[:16]), build_model=build_model, loss="mae",
        optimizer=lambda: keras.optimizers.SGD(1e-6), shuffle=False, quality_metric="val_loss",
    )  # fmt: skip


def _recording(base: Any) -> Any:
    import keras
    import tensorflow as tf

    class Recording(base):
        def __init__(self, *args: Any, ids: str, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.ids = ids

        def train_step(self, data: Any) -> Any:
            _, y, *_ = data
            tf.print(y[:, 0], summarize=-1, output_stream=f"file://{self.ids}")
            logs = super().train_step(data)
            # what is no metric is averaged over the replicas
            return {**logs, "highest_id": keras.ops.max(y[:, 0])}

    return Recording


def _dying(base: Any) -> Any:
    class Dying(base):
        """Keras calls it after every call of the train function."""

        def __init__(self) -> None:
            super().__init__()
            self.epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
            mark = Path(__file__).with_name("died")
            if task.get("index") == 1 and self.epoch == 1 and batch >= 4 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return Dying


def _asking(base: Any) -> Any:
    class Asking(base):
        """Evaluates and predicts by itself, as users' callbacks do."""

        def __init__(self, x: Any, y: Any) -> None:
            super().__init__()
            self.x, self.y = x, y

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            evaluated = self.model.evaluate(self.x, self.y, verbose=0, return_dict=True)
            logs["asked_loss"] = evaluated["loss"]
            logs["asked_accuracy"] = evaluated["accuracy"]
            logs["iterations"] = float(self.model.optimizer.iterations.numpy())
            logs["asked_mean"] = float(self.model.predict(self.x, verbose=0).mean())

    return Asking
