"""Small workloads that several tests train; most are the text of a module of a project."""

from typing import Any

import numpy as np

from support.lazy_modules import keras
from tfopt_core import Workload

# Random points around four centers. With the default rate the model learns nothing.
BLOBS = """
    import keras
    import numpy as np
    from tfopt_core import DataPlan, Workload

    def build(rate=1e-6, units=4):
        random = np.random.default_rng(7)
        labels = random.integers(0, 4, 800)
        x = 3 * random.normal(size=(4, 8))[labels] + random.normal(size=(800, 8))
        x = x.astype("float32")
        def build_model():
            return keras.Sequential([
                keras.layers.Input((8,)), keras.layers.Dense(units, "relu"),
                keras.layers.Dense(4, "softmax"),
            ])
        return Workload(
            train=DataPlan.from_arrays(x[:600], labels[:600]), validation=(x[600:], labels[600:]),
            build_model=build_model, optimizer=lambda: keras.optimizers.SGD(rate),
            loss="sparse_categorical_crossentropy", metrics=("accuracy",), baseline="SGD",
            quality_metric="val_accuracy",
        )
"""
# A network with state that a checkpoint must hold; `pause` is the least seconds of a step.
STATEFUL = """
    import time
    import keras
    import numpy as np
    from tfopt_core import Workload

    def build(pause=0.0):
        x = np.random.default_rng(0).normal(size=(84, 6)).astype("float32")
        def build_model():
            layers = keras.layers
            return keras.Sequential(
                [layers.Input((6,)), layers.Dense(8, "relu"), layers.BatchNormalization(),
                 layers.Dropout(0.4), layers.Dense(1)]
            )
        def wait(batch, logs=None):
            time.sleep(pause)
        return Workload(
            train=(x, x[:, :1]), validation=(x[:9], x[:9, :1]), build_model=build_model,
            optimizer="adam", loss="mse", baseline="a small network",
            callbacks=lambda: (
                [keras.callbacks.LambdaCallback(on_train_batch_end=wait)] if pause else []
            ),
        )
"""


def pydataset(*batches: Any) -> Any:
    """A PyDataset named "Batches" of these batches."""

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> Any:
            return batches[index]

    return Batches()


def with_own_step(model: Any) -> Any:
    """A model of the class "Own", which has a `train_step` of its own around that of Keras."""

    class Own(keras.Model):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    return Own(model.inputs, model.outputs)


def line(count: int = 64, **changes: Any) -> Workload:
    """A regression of so many examples by a model of one layer, without validation data.

    :param changes: arguments of the workload.
    """
    x = np.random.default_rng(1).random((count, 3), "float32")
    plain = {
        "train": (x, x[:, :1]), "optimizer": "sgd", "loss": "mse",
        "build_model": lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]),
    }  # fmt: skip
    return Workload(**{**plain, **changes})
