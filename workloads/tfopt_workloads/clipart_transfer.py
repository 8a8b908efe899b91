"""The workload `clipart-transfer`: a new head on a frozen network, over a folder of JPEG files.

As in the guide to transfer learning of Keras: the base is frozen and runs in inference mode, and
pooling, dropout and a dense layer are trained on top of it.
"""

from __future__ import annotations

from typing import Any

from tfopt_core import Workload
from tfopt_workloads import bundled, folders, locations
from tfopt_workloads.clipart_jpeg import BUNDLED, decoder, labelled
from tfopt_workloads.options import yes_or_no

WEIGHTS = locations.BUNDLED / "clipart_base.npz"
# The base was trained on the first classes in the order of their names.
BASE_CLASSES = 4
SIZE = 96


def build(examples: int | None = None, train_base: bool = False) -> Workload:
    """Pictures of Open Clip Art in 4 classes, and a MobileNetV2 that was trained on 4 others.

    The base has 410,208 weights (a width of 0.35, pictures of 96x96), which
    `workloads/tools/build_clipart_base.py` trained on the other four classes of the same
    collection: a small stand-in for the weights that others download.

    :param examples: the number of training pictures, all by default; validation pictures stay.
    :param train_base: whether the base is trained too, so that nothing is frozen.
    :raises WorkloadError: for a wrong option.
    """
    train_base = yes_or_no("train_base", train_base)
    found = dict(list(folders.checked_pictures(BUNDLED).items())[BASE_CLASSES:])
    chosen, held_out = folders.train_and_validation(found, examples)

    def build_model() -> Any:
        return transfer_model(len(found), train_base)

    import keras

    decode = decoder(SIZE)
    return Workload(
        train=labelled(chosen).map(decode),
        validation=labelled(held_out).map(decode),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=15,
        batch_size=32,
        baseline=(
            "stock fit over plain tf.data: paths shuffled anew each epoch, files read, decoded and "
            "scaled in a sequential map, batched; the frozen base computed in every step"
        ),
    )


def transfer_model(classes: int, train_base: bool = False) -> Any:
    """The trained base, frozen unless it is to be trained, with a new head."""
    import keras
    from keras import layers

    base = mobile_net()
    weights = bundled.load("clipart_base")
    base.set_weights([weights[name].astype("float32") for name in sorted(weights)])
    base.trainable = train_base
    pictures = keras.Input((SIZE, SIZE, 3), name="picture")
    # negatives from -1 to 1: clip art lies on white
    hidden = layers.Rescaling(-2.0, offset=1.0)(pictures)
    hidden = base(hidden, training=False)
    hidden = layers.GlobalAveragePooling2D()(hidden)
    hidden = layers.Dropout(0.2)(hidden)
    logits = layers.Dense(classes, name="logits")(hidden)
    return keras.Model(pictures, logits, name="clipart_transfer")


def mobile_net() -> Any:
    """The base without weights: MobileNetV2 of width 0.35 without its top."""
    import keras

    return keras.applications.MobileNetV2(
        input_shape=(SIZE, SIZE, 3), alpha=0.35, include_top=False, weights=None, name="base"
    )
