"""The learning rate is far too high: the loss is NaN from the first epoch on."""

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(1e9), loss="mse")
history = model.fit(x, y, epochs=2, validation_split=0.25, verbose=2)
print("history: model", repr(history.history))
