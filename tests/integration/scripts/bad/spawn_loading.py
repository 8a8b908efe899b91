"""Loads its data in two spawned processes, which import this file again."""

import multiprocessing
from importlib.resources import files

import numpy as np


def load(part):
    """A quarter of the pictures (n, 784) float32, and their labels."""
    archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
    rows = slice(part * 500, (part + 1) * 500)
    pictures = archive["train_images"][rows].reshape(-1, 784).astype("float32") / 255
    return pictures, archive["train_labels"][rows]


def main():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(load, range(4))
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    history = model.fit(x, y, epochs=2, validation_split=0.2, verbose=2)
    print("history: model", repr(history.history))


if __name__ == "__main__":
    main()
