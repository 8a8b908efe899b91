"""A script that imports a module beside it and reads its settings from a file beside it."""

import json
import pathlib
from importlib.resources import files

import keras
import numpy as np
from network import build_network

HERE = pathlib.Path(__file__).resolve().parent

settings = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
keras.utils.set_random_seed(settings["seed"])

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x_train = archive["train_images"][: settings["examples"]].astype("float32") / 255
y_train = archive["train_labels"][: settings["examples"]]

model = build_network(settings["units"])
model.compile(
    optimizer=keras.optimizers.get(settings["optimizer"]),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
history = model.fit(x_train, y_train, epochs=settings["epochs"], validation_split=0.2, verbose=2)
print("history: model", repr(history.history))
