"""Builds and compiles a model and predicts with it, and trains nothing."""

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
print("predictions:", model.predict(x, verbose=0).shape)
print("loss:", model.evaluate(x, x[:, :1], verbose=0))
