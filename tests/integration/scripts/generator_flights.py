# Train from a Python generator that yields batches for ever.
from importlib.resources import files

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

BATCH = 256
STEPS = 40

tf.keras.utils.set_random_seed(123)


def read_flights():
    table = np.load(str(files("tfopt_workloads") / "data" / "flights.npz"))
    columns = ["month", "weekday", "scheduled_departure", "departure_delay", "distance"]
    x = np.stack([table[name][:20000].astype("float32") for name in columns], axis=1)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (table["arrival_delay"][:20000] > 15).astype("float32")
    return x, y


def batches(x, y, rng):
    while True:
        rows = rng.integers(0, len(x), size=BATCH)
        yield x[rows], y[rows, None]


x, y = read_flights()
train = batches(x[:16000], y[:16000], np.random.default_rng(0))
x_valid, y_valid = x[16000:], y[16000:, None]

# no Input: the model is built when the first batch arrives
model = models.Sequential()
model.add(layers.Dense(32, activation="relu"))
model.add(layers.BatchNormalization())
model.add(layers.Dense(16, activation="relu"))
model.add(layers.Dense(1, activation="sigmoid"))

model.compile(loss="binary_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
history = model.fit(
    train,
    steps_per_epoch=STEPS,
    epochs=3,
    validation_data=(x_valid, y_valid),
    validation_batch_size=1000,
)
print("weights:", model.count_params())
print("history: model", repr(history.history))
