"""Leaves with status 3 before it trains: a check of the set-up fails."""

import pathlib
import sys

import keras
import numpy as np

CHECKPOINT = pathlib.Path("pretrained.keras")

x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
if not CHECKPOINT.exists():
    print("no pretrained model at", CHECKPOINT)
    sys.exit(3)
history = model.fit(x, y, epochs=2)
print("history: model", repr(history.history))
