"""Leaves with status 3 after it has trained: the model is not good enough for its author."""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=2, verbose=2)
print("history: model", repr(history.history))
if history.history["loss"][-1] > 1e-9:
    sys.exit(3)
print("good enough")
