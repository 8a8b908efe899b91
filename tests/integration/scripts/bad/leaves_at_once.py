"""Ends its process with os._exit(0) before it trains: nothing is cleaned up, nothing is said."""

import os

import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
os._exit(0)
model.fit(x, x[:, :1], epochs=2)
