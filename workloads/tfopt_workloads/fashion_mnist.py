"""The workload `fashion-mnist`: a small convolutional network for pictures of clothes.

Convolutions take most of a step, so this is where another precision or a compiler shows.
"""

from __future__ import annotations

from typing import Any

from tfopt_core import DataPlan, Workload, WorkloadError
from tfopt_workloads import bundled, locations
from tfopt_workloads.idx import FILES, read_idx
from tfopt_workloads.options import one_of, whole_number

CLASSES = 10
SOURCES = ("bundled", "full", "keras")


def build(
    examples: int | None = None,
    classes: int | None = None,
    width: int = 1,
    source: str = "bundled",
) -> Workload:
    """Fashion-MNIST, 28x28 grey pictures of 10 kinds of clothes, and a small CNN.

    :param examples: the number of training examples, all by default; validation data stay.
    :param classes: only the first classes, 2 to 10.
    :param width: multiplies the channels of each layer.
    :param source: "bundled" (10,000 + 5,000 pictures), "full" (60,000 + 10,000, from the Debian
        package dataset-fashion-mnist) or "keras" (the same from keras.datasets, over a network).
    :raises WorkloadError: for a wrong option, and for data that are not there.
    """
    kept = CLASSES if classes is None else whole_number("classes", classes, low=2, high=CLASSES)
    width = whole_number("width", width, low=1)
    if examples is not None:
        whole_number("examples", examples, low=1)
    arrays = _load(one_of("source", source, SOURCES))
    train = _first_classes(arrays["train_images"], arrays["train_labels"], kept)
    validation = _first_classes(arrays["validation_images"], arrays["validation_labels"], kept)
    if examples is not None:
        count = whole_number("examples", examples, low=1, high=len(train[1]))
        train = (train[0][:count], train[1][:count])

    def build_model() -> Any:
        return small_cnn(kept, width)

    import keras

    return Workload(
        train=DataPlan.from_arrays(*train).map(normalize),
        validation=DataPlan.from_arrays(*validation).map(normalize),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=5,
        batch_size=32,
        baseline=(
            "stock fit over plain tf.data: shuffled anew each epoch, normalized in a sequential "
            "map, batched; no cache, no prefetch"
        ),
    )


def normalize(image: Any, label: Any) -> tuple[Any, Any]:
    """From (28, 28) uint8 to (28, 28, 1) float32 between 0 and 1."""
    import tensorflow as tf

    return tf.expand_dims(tf.cast(image, tf.float32) / 255.0, -1), label


def small_cnn(classes: int, width: int = 1) -> Any:
    """Two convolutions with pooling and a dense layer; nothing random, so runs can be compared.

    The 5x5 convolution does 95 % of the multiplications. On two CPU cores with avx512_bf16 a
    stock step takes 8.0 ms in float32 and 5.9 ms in bfloat16.
    """
    import keras
    from keras import layers

    pictures = keras.Input((28, 28, 1), name="picture")
    hidden = layers.Conv2D(32 * width, 3, padding="same", activation="relu")(pictures)
    hidden = layers.MaxPooling2D()(hidden)
    hidden = layers.Conv2D(48 * width, 5, padding="same", activation="relu")(hidden)
    hidden = layers.MaxPooling2D()(hidden)
    hidden = layers.Flatten()(hidden)
    hidden = layers.Dense(64 * width, activation="relu")(hidden)
    logits = layers.Dense(classes, name="logits")(hidden)
    return keras.Model(pictures, logits, name="small_cnn")


def _load(source: str) -> dict[str, Any]:
    if source == "full":
        return _load_full()
    if source == "keras":
        return _load_keras()
    return bundled.load("fashion_mnist")


def _load_full() -> dict[str, Any]:
    folder, package = locations.FASHION_MNIST_FOLDER, locations.FASHION_MNIST_PACKAGE
    try:
        return {name: read_idx(folder / file) for name, file in FILES.items()}
    except (OSError, ValueError) as error:
        raise WorkloadError(
            f'source "full" needs the Debian package {package} ({error}); apt-get install {package}'
        ) from error


def _load_keras() -> dict[str, Any]:
    import keras

    try:
        train, validation = keras.datasets.fashion_mnist.load_data()
    except Exception as error:  # keras raises a plain Exception when a download fails
        raise WorkloadError(
            f'source "keras" could not get the data from keras.datasets ({error}); '
            'it needs a network once, source = "bundled" does not'
        ) from error
    return {
        "train_images": train[0],
        "train_labels": train[1],
        "validation_images": validation[0],
        "validation_labels": validation[1],
    }


def _first_classes(images: Any, labels: Any, classes: int) -> tuple[Any, Any]:
    kept = labels < classes
    return images[kept], labels[kept]
