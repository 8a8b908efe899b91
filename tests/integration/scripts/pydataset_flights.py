"""Train on a keras.utils.PyDataset that shuffles itself after each epoch."""

import math
from importlib.resources import files

import keras
import numpy as np

LATE_MINUTES = 15


class Flights(keras.utils.PyDataset):
    """Batches of flights: numbers, and whether the flight arrived late."""

    def __init__(self, first, last, batch_size, shuffle=False, **kwargs):
        super().__init__(**kwargs)
        table = np.load(str(files("tfopt_workloads") / "data" / "flights.npz"))
        columns = ("month", "weekday", "scheduled_departure", "departure_delay", "distance")
        self.x = np.stack([table[name][first:last] for name in columns], 1).astype("float32")
        self.y = (table["arrival_delay"][first:last, None] > LATE_MINUTES).astype("float32")
        self.batch_size = batch_size
        self.order = np.arange(len(self.x))
        self.rng = np.random.default_rng(5) if shuffle else None

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return self.x[rows], self.y[rows]

    def on_epoch_end(self):
        if self.rng is not None:
            self.rng.shuffle(self.order)


def build(normalizer):
    inputs = keras.Input(shape=(5,))
    x = normalizer(inputs)
    x = keras.layers.Dense(64, activation="relu")(x)
    x = keras.layers.Dropout(0.2)(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    outputs = keras.layers.Dense(1, activation="sigmoid")(x)
    return keras.Model(inputs, outputs)


def main():
    keras.utils.set_random_seed(2024)
    train = Flights(0, 12000, batch_size=128, shuffle=True)
    validation = Flights(12000, 15000, batch_size=500)

    normalizer = keras.layers.Normalization()
    normalizer.adapt(train.x)
    model = build(normalizer)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    history = model.fit(train, validation_data=validation, epochs=3, verbose=2)
    late = model.predict(validation, verbose=0)
    print("predicted late:", int((late > 0.5).sum()), "of", len(late))
    print("history: model", repr(history.history))


if __name__ == "__main__":
    main()
