"""A filter leaves nothing over: `fit` gets arrays without a row."""

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
x = x[x[:, 0] > 100]

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, x[:, :1], epochs=2, verbose=2)
print("history: model", repr(history.history))
