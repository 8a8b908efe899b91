"""Train, save, load what was saved (it comes back compiled), and go on training."""

import pathlib
from importlib.resources import files

import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.keras.utils.set_random_seed(5)
pathlib.Path("models").mkdir(exist_ok=True)


def create_model():
    model = keras.Sequential(
        [
            keras.layers.Input(shape=(784,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, weight_decay=1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


with np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz")) as data:
    train_images = data["train_images"][:5000].reshape(-1, 784) / 255.0
    train_labels = data["train_labels"][:5000]
    test_images = data["validation_images"][:1000].reshape(-1, 784) / 255.0
    test_labels = data["validation_labels"][:1000]

model = create_model()
first = model.fit(train_images, train_labels, epochs=2, batch_size=64, verbose=2)
model.save("models/clothes.keras")
del model

model = keras.models.load_model("models/clothes.keras")
loss, accuracy = model.evaluate(test_images, test_labels, verbose=0)
print(f"Restored model, accuracy: {100 * accuracy:5.2f} %")
second = model.fit(
    train_images,
    train_labels,
    initial_epoch=2,
    epochs=4,
    batch_size=64,
    verbose=2,
    validation_data=(test_images, test_labels),
)
print(model.predict(test_images, verbose=0).shape)
print("history: first", repr(first.history))
print("history: second", repr(second.history))
