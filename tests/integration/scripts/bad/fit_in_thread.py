"""Trains in a thread, while the main thread waits for it."""

import threading

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(1024, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
histories = []


def train():
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    histories.append(model.fit(x, y, epochs=2, verbose=0).history)


thread = threading.Thread(target=train, name="trainer")
thread.start()
thread.join()
for history in histories:
    print("history: model", repr(history))
