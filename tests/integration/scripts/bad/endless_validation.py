"""Validates on an endless generator: Keras reads ahead of it, so each run sees other batches."""

import keras
import numpy as np

keras.utils.set_random_seed(1)


def batches(seed):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.normal(size=(64, 4)).astype("float32")
        yield x, np.abs(x).sum(axis=1, keepdims=True)


model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(
    batches(0),
    steps_per_epoch=30,
    epochs=3,
    validation_data=batches(1),
    validation_steps=3,
    verbose=2,
)
print("history: model", repr(history.history))
