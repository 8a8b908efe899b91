"""A script of the Keras 2 days: it needs the package tf_keras."""

from importlib.resources import files

import numpy as np
import tf_keras as keras

keras.utils.set_random_seed(42)

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x, y = archive["train_images"][:2000] / 255.0, archive["train_labels"][:2000]

model = keras.models.Sequential(
    [
        keras.layers.Flatten(input_shape=(28, 28)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.legacy.Adam(),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
history = model.fit(x, y, epochs=2, validation_split=0.1)
print("history: model", repr(history.history))
