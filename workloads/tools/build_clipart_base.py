"""Rebuild `tfopt_workloads/data/clipart_base.npz`: a MobileNetV2 trained on half of the clip art.

    python workloads/tools/build_clipart_base.py [--output FILE] [--epochs N]

Needs TensorFlow and an installed tfopt, and some minutes. The network sees the training pictures of
the first four classes only, mirrored and moved at random; the workload `clipart-transfer` trains on
the other four. Weights are kept in float16, in the order of `model.get_weights()`. The seed is
fixed, but kernels differ between machines, so another machine makes other weights that serve as
well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from _npz import report, write_npz
from keras import layers
from tfopt_workloads import folders
from tfopt_workloads.clipart_jpeg import BUNDLED, decoder
from tfopt_workloads.clipart_transfer import BASE_CLASSES, SIZE, WEIGHTS, mobile_net

SEED, BATCH_SIZE, RATE = 1, 32, 2e-3


def pictures() -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """The training and validation pictures of the first classes, in batches."""
    splits = {
        name: folders.split(paths)
        for name, paths in list(folders.pictures(BUNDLED).items())[:BASE_CLASSES]
    }

    def batches(part: int) -> tf.data.Dataset:
        paths, labels = folders.in_turn({name: split[part] for name, split in splits.items()})
        data = tf.data.Dataset.from_tensor_slices((paths, np.array(labels, np.int32)))
        data = data.map(decoder(SIZE), num_parallel_calls=tf.data.AUTOTUNE).cache()
        if part == 0:
            data = data.shuffle(len(paths))
        return data.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)

    return batches(0), batches(1)


def trained(epochs: int) -> keras.Model:
    """The base, trained below a dense layer that is thrown away."""
    keras.utils.set_random_seed(SEED)
    train, validation = pictures()
    base = mobile_net()
    for layer in base.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.9  # that of MobileNetV2, 0.999, takes more steps than these
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.RandomFlip("horizontal"),
            layers.RandomTranslation(0.1, 0.1, fill_mode="nearest"),
            layers.Rescaling(-2.0, offset=1.0),
            base,
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.3),
            layers.Dense(BASE_CLASSES),
        ]
    )
    steps = epochs * int(train.cardinality())
    model.compile(
        keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(RATE, steps)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=validation, epochs=epochs, verbose=2)
    return base


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=WEIGHTS)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    weights = trained(args.epochs).get_weights()
    arrays = {f"{index:03}": value.astype(np.float16) for index, value in enumerate(weights)}
    write_npz(args.output, arrays)
    print(report(args.output, arrays))


if __name__ == "__main__":
    main()
