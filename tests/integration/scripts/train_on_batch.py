"""A compiled model that is trained with `train_on_batch`, batch by batch, without `fit`."""

from importlib.resources import files

import keras
import numpy as np

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)

table = np.load(str(files("tfopt_workloads") / "data" / "flights.npz"))
x = np.stack([table[name][:10000] for name in ("distance", "departure_delay")], 1) / 100.0
y = (table["arrival_delay"][:10000, None] > 15).astype("float32")

model = keras.Sequential(
    [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

history = {"loss": [], "accuracy": []}
for epoch in range(2):
    model.reset_metrics()
    order = rng.permutation(len(x))
    for start in range(0, len(x), 128):
        rows = order[start : start + 128]
        logs = model.train_on_batch(x[rows], y[rows], return_dict=True)
    for name in history:
        history[name].append(float(logs[name]))
    print("epoch", epoch, {name: round(values[-1], 4) for name, values in history.items()})
print("history: batches", repr(history))
