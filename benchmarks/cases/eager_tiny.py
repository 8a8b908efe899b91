"""A very small regression that runs eagerly, to look into `call` with a debugger."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(256, 3)).astype("float32")
y = x @ np.array([[1.0], [-2.0], [0.5]], "float32") + 0.1


class Linear(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.calls = 0

    def call(self, inputs):
        self.calls += 1  # counts batches only when run eagerly
        return self.dense(inputs)


model = Linear()
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=32, verbose=0)
print("calls:", model.calls, "weights:", model.dense.kernel.numpy().ravel())
print("history: linear", repr(history.history))
