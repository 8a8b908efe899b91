"""Prints a million lines, half of them to each stream, and then trains."""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

for number in range(500_000):
    print("checked row", number)
    print("warning: row", number, "is a row", file=sys.stderr)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=2, verbose=2)
print("history: model", repr(history.history))
