"""Takes the number of epochs and the learning rate from sys.argv, by position."""

import sys

import keras
import numpy as np

if len(sys.argv) != 3:
    sys.exit(f"usage: {sys.argv[0]} EPOCHS LEARNING_RATE")
epochs, rate = int(sys.argv[1]), float(sys.argv[2])

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(rate), loss="mse")
history = model.fit(x, y, epochs=epochs, verbose=2)
print("history: model", repr(history.history))
