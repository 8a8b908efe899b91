"""What the stacks of the covering array train: something for most plugins to act on, in little.

A recipe names this file. Real pictures, decoded by a map of single examples; a frozen layer, a
convolution and a dense head; a last batch that is smaller than the others.
"""

from typing import Any

from tfopt_workloads import bundled

from tfopt_core import DataPlan, Workload

EXAMPLES, VALIDATION, SIDE, CLASSES = 72, 24, 12, 10


def build(recurrent: bool = False, normalized: bool = False) -> Workload:
    """Return the workload.

    :param recurrent: whether an LSTM stands before the head, which takes as long to trace as all
        the rest.
    :param normalized: whether the head's inputs are normalized.
    """
    import keras

    arrays = bundled.load("fashion_mnist")
    corner = slice(8, 8 + SIDE)

    def split(pictures: Any, labels: Any, count: int) -> DataPlan:
        few = pictures[:count, corner, corner, None]
        return DataPlan.from_arrays(few, labels[:count]).map(scaled)

    return Workload(
        train=split(arrays["train_images"], arrays["train_labels"], EXAMPLES),
        validation=split(arrays["validation_images"], arrays["validation_labels"], VALIDATION),
        build_model=lambda: build_model(recurrent=recurrent, normalized=normalized),
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
    )


def scaled(picture: Any, label: Any) -> Any:
    """Return a picture of bytes, or a batch of them, as numbers from 0 to 1."""
    import tensorflow as tf

    return tf.cast(picture, "float32") / 255, label


def flipped(picture: Any) -> Any:
    """Return a picture, one in two of them mirrored."""
    import tensorflow as tf

    return tf.image.random_flip_left_right(picture)


def build_model(*, recurrent: bool, normalized: bool = False) -> Any:
    """Return a model of about a thousand weights."""
    import keras
    from keras import layers

    half, channels = SIDE // 2, 4
    flat = [layers.Reshape((half, half * channels)), layers.LSTM(8)]
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Conv2D(2, 3, strides=2, padding="same", trainable=False),
            layers.Conv2D(channels, 3, padding="same", activation="relu"),
            *(flat if recurrent else [layers.Flatten()]),
            *([layers.LayerNormalization()] if normalized else []),
            layers.Dense(8, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )
