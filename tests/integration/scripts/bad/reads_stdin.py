"""Asks on the terminal how many epochs to train."""

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

epochs = int(input("How many epochs? "))
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=epochs, verbose=2)
print("history: model", repr(history.history))
