"""Small networks on real data, for the benchmarks: factories as a recipe names them.

`mlp`, `cnn` and `spectral` take Fashion-MNIST (in the repository) in other shapes, `autoencoder` as
it is, `clipart` takes the pictures of "clipart-jpeg", `characters` the source of Python's standard
library; the LSTM and the Transformer of the benchmarks are the shipped workloads "weather" and
"stdlib-text".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
from tfopt_workloads import bundled

from tfopt_core import DataPlan, Workload

CLASSES = 10


def mlp(examples: int = 10_000) -> Workload:
    """Return a 64-128-64-10 network over pictures of 8x8 pixels, whose step computes for
    microseconds.

    :param examples: of the 10,000 training pictures.
    """
    train, validation = _pictures(examples)

    def build_model() -> Any:
        import keras
        from keras import layers

        pixels = keras.Input((64,))
        hidden = layers.Dense(128, activation="relu")(pixels)
        hidden = layers.Dense(64, activation="relu")(hidden)
        return keras.Model(pixels, layers.Dense(CLASSES)(hidden))

    return _workload((_eight_by_eight(train[0]), train[1]),
                     (_eight_by_eight(validation[0]), validation[1]), build_model)  # fmt: skip


def cnn(examples: int = 4096) -> Workload:
    """Return a network of three convolutions over pictures of 32x32x3.

    :param examples: of the 10,000 training pictures.
    """
    train, validation = _pictures(examples)

    def build_model() -> Any:
        import keras
        from keras import layers

        pictures = keras.Input((32, 32, 3))
        hidden = layers.Conv2D(32, 3, padding="same", activation="relu")(pictures)
        hidden = layers.MaxPooling2D()(hidden)
        hidden = layers.Conv2D(64, 3, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPooling2D()(hidden)
        hidden = layers.Conv2D(64, 3, padding="same", activation="relu")(hidden)
        hidden = layers.Flatten()(hidden)
        hidden = layers.Dense(64, activation="relu")(hidden)
        return keras.Model(pictures, layers.Dense(CLASSES)(hidden))

    return _workload((_in_colour(train[0]), train[1]),
                     (_in_colour(validation[0]), validation[1]), build_model)  # fmt: skip


def autoencoder(examples: int = 4096) -> Workload:
    """Return two convolutions and two transposed ones that reproduce pictures of 28x28.

    :param examples: of the 10,000 training pictures.
    """
    train, validation = (
        pictures[..., None].astype("float32") / 255 for pictures, _ in _pictures(examples)
    )

    def build_model() -> Any:
        import keras
        from keras import layers

        kept = {"strides": 2, "padding": "same"}
        pictures = keras.Input((28, 28, 1))
        hidden = layers.Conv2D(32, 3, activation="relu", **kept)(pictures)
        hidden = layers.Conv2D(64, 3, activation="relu", **kept)(hidden)
        hidden = layers.Conv2DTranspose(32, 3, activation="relu", **kept)(hidden)
        return keras.Model(pictures, layers.Conv2DTranspose(1, 3, **kept)(hidden))

    return Workload(
        train=DataPlan.from_arrays(train, train),
        validation=DataPlan.from_arrays(validation, validation),
        build_model=build_model,
        loss="mse",
        baseline="stock fit over arrays in memory, shuffled anew each epoch and batched",
    )


def characters(examples: int = 8000) -> Workload:
    """Return a GRU of 128 units that predicts each next of 64 characters of Python source.

    :param examples: the number of training texts, at most 8,000; there are 1,000 to validate on.
    """
    import email
    import unittest

    tokens = 64
    texts = [
        text
        for package in (email, unittest)
        for path in sorted(Path(package.__path__[0]).glob("*.py"))
        for text in (path.read_bytes(),)
    ]
    codes = np.frombuffer(b"".join(texts), np.uint8)
    codes = np.where((codes >= 32) & (codes < 127), codes - 31, 0).astype("int32")
    starts = np.linspace(0, len(codes) - tokens - 2, 9000).astype(int)
    windows = codes[starts[:, None] + np.arange(tokens + 1)]
    # the last ninth of the text, so that no window lies on both sides
    train, validation = windows[:8000], windows[8001:]
    train = train[np.linspace(0, len(train) - 1, examples).astype(int)]

    def build_model() -> Any:
        import keras
        from keras import layers

        text = keras.Input((tokens,), dtype="int32")
        hidden = layers.Embedding(96, 32)(text)
        hidden = layers.GRU(128, return_sequences=True)(hidden)
        return keras.Model(text, layers.Dense(96)(hidden))

    return _workload(
        (train[:, :-1], train[:, 1:]), (validation[:, :-1], validation[:, 1:]), build_model
    )


def spectral(examples: int = 4096) -> Workload:
    """Return a network whose weights are made orthogonal in each step by two decompositions, one
    after the other, which take most of the step and which one core computes.

    :param examples: of the 10,000 training pictures.
    """
    train, validation = _pictures(examples)

    def build_model() -> Any:
        import keras
        from keras import layers

        def orthogonal(weights: Any) -> Any:
            # what one decomposition has rounded, another one makes orthogonal again
            for _ in range(2):
                left, _, right = keras.ops.svd(weights, full_matrices=False)
                weights = keras.ops.matmul(left, right)
            return weights

        pixels = keras.Input((64,))
        hidden = layers.Dense(704, activation="relu")(pixels)
        hidden = layers.Dense(704, activation="relu", kernel_constraint=orthogonal)(hidden)
        return keras.Model(pixels, layers.Dense(CLASSES)(hidden))

    return _workload((_eight_by_eight(train[0]), train[1]),
                     (_eight_by_eight(validation[0]), validation[1]), build_model)  # fmt: skip


def clipart(folder: str) -> Workload:
    """Return "clipart-jpeg" with a network of half its channels, so that input dominates.

    :param folder: a folder of class folders of JPEG files.
    """
    from tfopt_workloads import clipart_jpeg

    whole = clipart_jpeg.build(folder=folder)
    classes = len([place for place in Path(folder).iterdir() if place.is_dir()])

    def build_model() -> Any:
        import keras
        from keras import layers

        pictures = keras.Input((96, 96, 3))
        hidden = layers.Rescaling(-1.0, offset=1.0)(pictures)
        for channels, kernel in ((12, 5), (24, 3), (48, 3), (64, 3)):
            hidden = layers.Conv2D(
                channels, kernel, strides=2, padding="same", activation="relu"
            )(hidden)  # fmt: skip
        hidden = layers.Flatten()(layers.MaxPooling2D(padding="same")(hidden))
        hidden = layers.Dense(64, activation="relu")(hidden)
        return keras.Model(pictures, layers.Dense(classes)(hidden))

    return attrs.evolve(whole, build_model=build_model)


def _pictures(examples: int) -> Any:
    arrays = bundled.load("fashion_mnist")
    train = arrays["train_images"][:examples], arrays["train_labels"][:examples]
    return train, (arrays["validation_images"], arrays["validation_labels"])


def _eight_by_eight(pictures: Any) -> Any:
    """Return (n, 28, 28) uint8 as (n, 64) float32: a frame of 2 is added, 4x4 pixels averaged."""
    framed = np.pad(pictures, ((0, 0), (2, 2), (2, 2))).astype("float32") / 255
    return framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)


def _in_colour(pictures: Any) -> Any:
    """Return (n, 28, 28) uint8 as (n, 32, 32, 3) float32."""
    framed = np.pad(pictures, ((0, 0), (2, 2), (2, 2))).astype("float32") / 255
    return np.repeat(framed[..., None], 3, axis=-1)


def _workload(train: Any, validation: Any, build_model: Any) -> Workload:
    import keras

    return Workload(
        train=DataPlan.from_arrays(*train),
        validation=DataPlan.from_arrays(*validation),
        build_model=build_model,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        baseline="stock fit over arrays in memory, shuffled anew each epoch and batched",
    )
