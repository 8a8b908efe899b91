"""The workload `fashion-efficientnet`: an EfficientNet on enlarged pictures of clothes.

Its network has as many parameters as those that reports speak of; the pictures are small ones, so
that two CPU cores train it in minutes.
"""

from __future__ import annotations

from typing import Any

from tfopt_core import DataPlan, Workload
from tfopt_workloads import bundled
from tfopt_workloads.fashion_mnist import CLASSES
from tfopt_workloads.options import whole_number


def build(
    examples: int | None = None,
    held_out: int | None = None,
    classes: int | None = None,
    size: int = 34,
) -> Workload:
    """Fashion-MNIST in three equal channels, and EfficientNetB1 with random weights.

    With pictures of 33 to 64 pixels the features have 2x2 places, and the model 7.3 million
    parameters.

    :param examples: the number of training pictures, all by default.
    :param held_out: the number of validation pictures, all by default.
    :param classes: only the first classes, 2 to 10.
    :param size: height and width to which each picture is scaled, in pixels.
    :raises WorkloadError: for a wrong option.
    """
    size = whole_number("size", size, low=32)
    kept = CLASSES if classes is None else whole_number("classes", classes, low=2, high=CLASSES)
    train = _pictures("train", kept, "examples", examples)
    validation = _pictures("validation", kept, "held_out", held_out)

    def build_model() -> Any:
        return efficientnet(kept, size)

    import keras

    return Workload(
        train=DataPlan.from_arrays(*train).map(enlarger(size)),
        validation=DataPlan.from_arrays(*validation).map(enlarger(size)),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=8,
        batch_size=32,
        baseline=(
            "stock fit over plain tf.data: shuffled anew each epoch, enlarged in a sequential map, "
            "batched; no cache, no prefetch"
        ),
    )


def enlarger(size: int) -> Any:
    """Return a map from a (28, 28) uint8 picture to a (size, size, 3) one, from 0 to 255."""
    import tensorflow as tf

    def enlarge(image: Any, label: Any) -> tuple[Any, Any]:
        image = tf.image.resize(tf.expand_dims(tf.cast(image, tf.float32), -1), (size, size))
        return tf.repeat(image, 3, axis=-1), label

    return enlarge


def efficientnet(classes: int, size: int) -> Any:
    """Return EfficientNetB1 with a dense head on its flattened features.

    Batch normalization follows its batches closely (a momentum of 0.9, not 0.99): a training here
    has some hundred steps.
    """
    import keras
    from keras import layers

    pictures = keras.Input((size, size, 3), name="picture")
    base = keras.applications.EfficientNetB1(
        include_top=False, weights=None, input_shape=(size, size, 3)
    )
    for layer in base.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.9
    hidden = layers.Flatten(name="features")(base(pictures))
    hidden = layers.Dense(144, activation="relu", name="head")(hidden)
    logits = layers.Dense(classes, name="logits")(hidden)
    return keras.Model(pictures, logits, name="fashion_efficientnet")


def _pictures(split: str, classes: int, option: str, count: int | None) -> tuple[Any, Any]:
    """Return the first pictures and labels of the first classes."""
    arrays = bundled.load("fashion_mnist")
    images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    kept = labels < classes
    images, labels = images[kept], labels[kept]
    if count is not None:
        count = whole_number(option, count, low=1, high=len(labels))
    return images[:count], labels[:count]
