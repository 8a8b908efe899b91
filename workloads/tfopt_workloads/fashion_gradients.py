"""The workload `fashion-gradients`: a Keras PyDataset whose batches are computed in NumPy.

Features are computed from each picture in Python, so the input takes most of a step.
"""

from __future__ import annotations

import math
from typing import Any

from tfopt_core import Workload
from tfopt_workloads import bundled
from tfopt_workloads.options import one_of, whole_number

CELL, ORIENTATIONS = 4, 9
FEEDS = ("pydataset", "arrays")
_SIDE = 28
FEATURES = (_SIDE // CELL) ** 2 * ORIENTATIONS


def build(
    examples: int | None = None, batch_size: int = 32, width: int = 1, feed: str = "pydataset"
) -> Workload:
    """Fashion-MNIST as histograms of oriented gradients, and a small dense network.

    A `keras.utils.PyDataset` computes the features of each picture whenever it is read, as scripts
    with feature extraction in NumPy do; its batches always hold the same pictures, and Keras draws
    their order.

    :param examples: the number of training examples, all 10,000 by default; validation data stay.
    :param batch_size: of the PyDataset.
    :param width: multiplies the units of the dense layer.
    :param feed: "pydataset", or "arrays" of the same features computed beforehand.
    :raises WorkloadError: for a wrong option.
    """
    import keras

    batch_size = whole_number("batch_size", batch_size, low=1)
    width = whole_number("width", width, low=1)
    one_of("feed", feed, FEEDS)
    data = bundled.load("fashion_mnist")
    images, labels = data["train_images"], data["train_labels"]
    if examples is not None:
        count = whole_number("examples", examples, low=1, high=len(labels))
        images, labels = images[:count], labels[:count]
    train: Any = gradients(images, labels, batch_size)
    validation: Any = gradients(data["validation_images"], data["validation_labels"], batch_size)
    if feed == "arrays":
        train, validation = _all_of(train), _all_of(validation)

    def build_model() -> Any:
        return dense(width)

    return Workload(
        train=train,
        validation=validation,
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=10,
        batch_size=batch_size,
        baseline=(
            "stock fit over a PyDataset that computes its features in NumPy, picture by picture, "
            "each time it is read; Keras shuffles its batches"
            if feed == "pydataset"
            else "stock fit over plain tf.data: features computed beforehand with NumPy, shuffled "
            "anew each epoch, batched; no prefetch"
        ),
    )


def gradients(images: Any, labels: Any, batch_size: int) -> Any:
    """The `keras.utils.PyDataset` of (features, labels), in batches of this size."""
    import keras
    import numpy as np

    class Gradients(keras.utils.PyDataset):  # type: ignore[misc]
        """Batches of histograms of gradients, computed picture by picture."""

        def __len__(self) -> int:
            return math.ceil(len(images) / batch_size)

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            rows = slice(index * batch_size, (index + 1) * batch_size)
            return np.stack([histogram(image) for image in images[rows]]), labels[rows]

    return Gradients()


def histogram(image: Any) -> Any:
    """The histogram of oriented gradients of a (28, 28) uint8 picture: (441,) float32.

    In each cell of 4x4 pixels the magnitudes of the gradients are summed by their orientation, in
    9 steps of 20 degrees; the whole has length 1. (Dalal and Triggs, 2005, without blocks.)
    """
    import numpy as np

    down, right = np.gradient(image.astype(np.float32) / 255.0)
    magnitude = np.hypot(down, right)
    orientation = (np.arctan2(down, right) % np.pi) * (ORIENTATIONS / np.pi)
    number = np.minimum(orientation.astype(np.int64), ORIENTATIONS - 1)
    cells = np.arange(_SIDE) // CELL
    cell = cells[:, None] * (_SIDE // CELL) + cells[None, :]
    sums = np.bincount(
        (cell * ORIENTATIONS + number).ravel(), weights=magnitude.ravel(), minlength=FEATURES
    )
    return (sums / (np.linalg.norm(sums) + 1e-6)).astype(np.float32)


def dense(width: int = 1) -> Any:
    """One hidden layer of 128 units; nothing random, so runs can be compared."""
    import keras
    from keras import layers

    features = keras.Input((FEATURES,), name="gradients")
    hidden = layers.Dense(128 * width, activation="relu")(features)
    return keras.Model(features, layers.Dense(10, name="logits")(hidden), name="dense")


def _all_of(pydataset: Any) -> tuple[Any, Any]:
    import numpy as np

    batches = [pydataset[index] for index in range(len(pydataset))]
    return (
        np.concatenate([features for features, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
    )
