"""Leaves with a message in place of a status."""

import sys

import keras
import numpy as np

with np.errstate(all="raise"):
    x = np.zeros((512, 4), dtype="float32")
if not x.any():
    sys.exit("the sensor was off: all measurements are 0")

model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(x, x[:, :1], epochs=2)
