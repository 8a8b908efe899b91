"""The workload `clipart-jpeg`: a folder of JPEG files and a small convolutional network.

Files are read and decoded anew in each epoch: of an epoch of 1.7 s on two CPU cores that takes
0.6 s, mirroring included, and the network 1.1 s. Larger files (`folder`) take more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core import DataPlan, Workload
from tfopt_workloads import folders, locations
from tfopt_workloads.options import one_number_of, path, whole_number, yes_or_no

BUNDLED = locations.BUNDLED / "clipart"
RATIOS = (1, 2, 4, 8)

Stage = Callable[[Any, Any], tuple[Any, Any]]


def build(
    examples: int | None = None,
    classes: int | None = None,
    size: int = 96,
    ratio: int = 1,
    augment: bool = True,
    width: int = 1,
    folder: str | None = None,
    seed: int | None = None,
) -> Workload:
    """About 1,200 + 300 pictures of Open Clip Art in 8 classes, as JPEG files, and a small CNN.

    Every fifth block of ten neighbouring names of a class is for validation.

    :param examples: the number of training pictures, all by default; validation pictures stay.
    :param classes: only the first classes in the order of their names, 2 to 8.
    :param size: height and width to which each picture is scaled, in pixels.
    :param ratio: 1, 2, 4 or 8: the decoder leaves out what a picture of that fraction of the size
        does not need, which is faster and changes the pictures a little.
    :param augment: whether a training picture is mirrored in half of the cases, drawn anew in
        each epoch.
    :param width: multiplies the channels of each layer.
    :param folder: another folder that holds .jpg files in a folder of each class.
    :param seed: of the mirroring; by default it follows the seed of the run.
    :raises WorkloadError: for a wrong option, and for a folder that holds too little.
    """
    size = whole_number("size", size, low=16)
    ratio = one_number_of("ratio", ratio, RATIOS)
    width = whole_number("width", width, low=1)
    augment = yes_or_no("augment", augment)
    if seed is not None:
        whole_number("seed", seed, low=0)
    if examples is not None:
        whole_number("examples", examples, low=1)
    if classes is not None:
        whole_number("classes", classes, low=2)
    place = BUNDLED if folder is None else path("folder", folder)
    found = folders.checked_pictures(place)
    if classes is not None:
        kept = whole_number("classes", classes, low=2, high=len(found))
        found = dict(list(found.items())[:kept])
    chosen, held_out = folders.train_and_validation(found, examples)

    def build_model() -> Any:
        return strided_cnn(len(found), size, width)

    import keras

    decode = decoder(size, ratio)
    train = labelled(chosen).map(decode)
    if augment:
        train = train.map(mirroring(seed))
    return Workload(
        train=train,
        validation=labelled(held_out).map(decode),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=10,
        batch_size=32,
        baseline=(
            "stock fit over plain tf.data: paths shuffled anew each epoch, files read, decoded "
            f"and scaled in a sequential map{', mirrored at random' if augment else ''}, batched; "
            "no cache, no prefetch"
        ),
    )


def labelled(pictures: folders.Labelled) -> DataPlan:
    """A plan over paths and the numbers of their classes."""
    import numpy as np

    paths, labels = pictures
    return DataPlan.from_arrays(np.array(paths), np.array(labels, np.int32))


def decoder(size: int, ratio: int = 1) -> Stage:
    """A map from the path of a JPEG file to the (size, size, 3) float32 picture, from 0 to 1."""
    import tensorflow as tf

    def read_and_decode(path: Any, label: Any) -> tuple[Any, Any]:
        picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, ratio=ratio)
        return tf.image.resize(picture, (size, size)) / 255.0, label

    return read_and_decode


def mirroring(seed: int | None = None) -> Stage:
    """A map that mirrors a picture left to right in half of the cases, anew in each epoch.

    It draws from a generator of its own: after `keras.utils.set_random_seed` the ops of
    `tf.random` would draw the same in every epoch.
    """
    import numpy as np
    import tensorflow as tf

    if seed is None:
        # runs seed NumPy, so this follows the seed of the run
        seed = int(np.random.randint(2**31))
    with tf.device("CPU:0"):  # tf.data runs there and cannot reach a state that lies on a GPU
        generator = tf.random.Generator.from_seed(seed)

    def mirror_at_random(picture: Any, label: Any) -> tuple[Any, Any]:
        is_mirrored = generator.uniform(()) < 0.5
        # a condition, as in tf.image.random_flip_left_right: what stays as it is is not copied
        return tf.cond(is_mirrored, lambda: tf.reverse(picture, [1]), lambda: picture), label

    return mirror_at_random


def strided_cnn(classes: int, size: int, width: int = 1) -> Any:
    """Four convolutions of stride 2, pooling and a dense layer; nothing random.

    Pictures are turned to their negatives first: clip art lies on white, and zeros where nothing
    is drawn let the network learn much sooner.
    """
    import keras
    from keras import layers

    pictures = keras.Input((size, size, 3), name="picture")
    hidden = layers.Rescaling(-1.0, offset=1.0)(pictures)
    for channels, kernel in ((24, 5), (48, 3), (96, 3), (128, 3)):
        hidden = layers.Conv2D(
            channels * width, kernel, strides=2, padding="same", activation="relu"
        )(hidden)
    hidden = layers.MaxPooling2D(padding="same")(hidden)
    hidden = layers.Flatten()(hidden)
    hidden = layers.Dense(64 * width, activation="relu")(hidden)
    logits = layers.Dense(classes, name="logits")(hidden)
    return keras.Model(pictures, logits, name="strided_cnn")
