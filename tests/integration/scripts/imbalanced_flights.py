"""
Title: Imbalanced classification: flights that are more than two hours late
Description: A subclassed model, class weights, and a callback that looks at each batch.
"""

from importlib.resources import files

import keras
import numpy as np

keras.utils.set_random_seed(17)

table = np.load(str(files("tfopt_workloads") / "data" / "flights.npz"))
names = ("month", "weekday", "scheduled_departure", "scheduled_arrival", "distance", "carrier")
features = np.stack([table[name][:12000] for name in names], axis=1).astype("float32")
targets = (table["arrival_delay"][:12000, None] > 120).astype("uint8")

num_val_samples = 2000
train_features, val_features = features[:-num_val_samples], features[-num_val_samples:]
train_targets, val_targets = targets[:-num_val_samples], targets[-num_val_samples:]

"""## Analyze class imbalance in the targets"""

counts = np.bincount(train_targets[:, 0])
print(f"Number of positive samples: {counts[1]} ({100 * counts[1] / len(train_targets):.2f} %)")
class_weight = {0: 1.0 / counts[0], 1: 1.0 / counts[1]}

mean, std = train_features.mean(axis=0), train_features.std(axis=0)
train_features = (train_features - mean) / std
val_features = (val_features - mean) / std


class Classifier(keras.Model):
    """Two hidden layers, with dropout while training."""

    def __init__(self, units, rate):
        super().__init__()
        self.first = keras.layers.Dense(units, activation="relu")
        self.second = keras.layers.Dense(units, activation="relu")
        self.dropout = keras.layers.Dropout(rate)
        self.last = keras.layers.Dense(1, activation="sigmoid")

    def call(self, inputs, training=False):
        x = self.first(inputs)
        x = self.dropout(x, training=training)
        x = self.second(x)
        return self.last(x)


class BatchLosses(keras.callbacks.Callback):
    """Keeps the loss after each batch, and stops a training that explodes."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        if logs["loss"] > 1e3:
            self.model.stop_training = True


model = Classifier(units=64, rate=0.3)
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss="binary_crossentropy",
    metrics=[keras.metrics.Precision(name="precision"), keras.metrics.Recall(name="recall")],
)
batch_losses = BatchLosses()
history = model.fit(
    train_features,
    train_targets,
    batch_size=512,
    epochs=3,
    verbose=2,
    callbacks=[batch_losses, keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: print())],
    validation_data=(val_features, val_targets),
    class_weight={kind: weight * counts[0] for kind, weight in class_weight.items()},
)
print("batches seen:", len(batch_losses.losses))
print("history: classifier", repr(history.history))
