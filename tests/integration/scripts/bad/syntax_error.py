"""A bracket is not closed."""

import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
model.compile(optimizer="sgd", loss="mse")
model.fit(x, x[:, :1], epochs=2)
