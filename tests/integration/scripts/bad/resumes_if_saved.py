"""Goes on from the weights of the last run if these lie in the working folder."""

import pathlib

import keras
import numpy as np

WEIGHTS = pathlib.Path("last.weights.h5")

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
)
model.compile(optimizer="sgd", loss="mse")
if WEIGHTS.exists():
    model.load_weights(WEIGHTS)
    print("resumed from", WEIGHTS)
history = model.fit(x, y, epochs=2, verbose=2)
model.save_weights(WEIGHTS)
print("history: model", repr(history.history))
