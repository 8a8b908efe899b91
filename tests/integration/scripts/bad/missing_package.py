"""Needs a package that nobody has installed."""

import keras
import numpy as np
import package_that_is_not_installed as helpers

x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(helpers.clean(x), x[:, :1], epochs=2)
