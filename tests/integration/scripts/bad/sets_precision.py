"""Sets the mixed precision policy itself."""

import keras
import numpy as np

keras.mixed_precision.set_global_policy("mixed_bfloat16")
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential(
    [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, dtype="float32")]
)
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=2, verbose=2)
print("policies:", [layer.dtype_policy.name for layer in model.layers])
print("history: model", repr(history.history))
