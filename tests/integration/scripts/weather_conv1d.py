# What is the humidity, given the last day? No seed: every run is another.
from importlib.resources import files

import numpy as np
import tensorflow as tf

weather = np.load(str(files("tfopt_workloads") / "data" / "weather.npz"))
series = np.stack([weather[k] for k in ("temperature", "dew_point", "humidity")], -1)
series = series[weather["airport"] == 0].astype("float32")
series = np.nan_to_num(series)[:3000] / 100.0


def window(dataset, size=24):
    dataset = dataset.window(size + 1, shift=1, drop_remainder=True)
    dataset = dataset.flat_map(lambda rows: rows.batch(size + 1))
    return dataset.map(lambda rows: (rows[:-1], rows[-1, 2:]))


train = window(tf.data.Dataset.from_tensor_slices(series[:2400])).cache().shuffle(500)
train = train.batch(64, drop_remainder=True)
test = window(tf.data.Dataset.from_tensor_slices(series[2400:])).batch(64)

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Conv1D(16, 5, activation="relu", padding="causal"))
model.add(tf.keras.layers.Conv1D(16, 5, activation="relu", dilation_rate=2, padding="causal"))
model.add(tf.keras.layers.Lambda(lambda x: x[:, -1]))
model.add(tf.keras.layers.Dense(1))
model.compile("adam", "mae", metrics=["mse"])

best = None
histories = []
for round_number in range(3):
    result = model.fit(train, epochs=1, verbose=0)
    histories.append(result.history)
    loss, _ = model.evaluate(test, verbose=0)
    print(f"round {round_number}: test loss {loss:.4f}")
    if best is None or loss < best:
        best = loss

for number, history in enumerate(histories):
    print(f"history: round{number}", repr(history))
