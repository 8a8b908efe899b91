"""Forks a helper that outlives the training; its number is in `child.pid`."""

import os
import pathlib
import time

child = os.fork()  # before TensorFlow starts its threads
if child == 0:
    time.sleep(60)
    os._exit(0)
pathlib.Path("child.pid").write_text(f"{child}\n", encoding="utf-8")

import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=2, verbose=2)
print("history: model", repr(history.history))
