"""JPEG files of a folder, decoded and augmented in one map: the input is the bottleneck."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(21)
SIZE, CLASSES = 96, 4


def write_images(folder, per_class):
    """Blobs, stripes, rings and noise in colour, as JPEG files by class."""
    rng = np.random.default_rng(21)
    yy, xx = np.mgrid[0:160, 0:160]
    for label in range(CLASSES):
        os.makedirs(os.path.join(folder, f"class_{label}"))
        for index in range(per_class):
            cx, cy = rng.uniform(40, 120, size=2)
            radius = np.hypot(xx - cx, yy - cy)
            wave = rng.uniform(0.1, 0.3)
            plane = [
                np.exp(-(radius**2) / 900.0),
                0.5 + 0.5 * np.sin(wave * xx + cy),
                0.5 + 0.5 * np.sin(wave * radius),
                rng.uniform(size=(160, 160)),
            ][label]
            image = plane[..., None] * rng.uniform(0.4, 1.0, size=3)
            image = image + 0.25 * rng.normal(size=image.shape)
            image = tf.cast(tf.clip_by_value(image, 0, 1) * 255, tf.uint8)
            name = os.path.join(folder, f"class_{label}", f"{index:04d}.jpg")
            tf.io.write_file(name, tf.io.encode_jpeg(image))


folder = tempfile.mkdtemp(prefix="augment-")
write_images(folder, 220)
paths = np.array(sorted(tf.io.gfile.glob(folder + "/*/*.jpg")))
targets = np.array([int(os.path.basename(os.path.dirname(path))[-1]) for path in paths])
order = np.random.default_rng(0).permutation(len(paths))
train_index, val_index = order[:720], order[720:]


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32) / 255.0, (SIZE + 16, SIZE + 16))
    return image, label


def load_and_augment(path, label):
    image, label = load(path, label)
    image = tf.image.random_crop(image, (SIZE, SIZE, 3))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    image = tf.image.random_contrast(image, 0.7, 1.3)
    image = tf.image.random_saturation(image, 0.7, 1.3)
    return image, label


def load_and_crop(path, label):
    image, label = load(path, label)
    return tf.image.resize_with_crop_or_pad(image, SIZE, SIZE), label


train_ds = (
    tf.data.Dataset.from_tensor_slices((paths[train_index], targets[train_index]))
    .shuffle(len(train_index))
    .map(load_and_augment)
    .batch(32)
)
val_ds = (
    tf.data.Dataset.from_tensor_slices((paths[val_index], targets[val_index]))
    .map(load_and_crop)
    .batch(32)
)

model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 3)),
        keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(CLASSES, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train_ds, validation_data=val_ds, epochs=10, verbose=2)

# the same file twice in one pass: are the draws different?
twice = tf.data.Dataset.from_tensors((paths[0], 0)).repeat(2).map(load_and_augment)
(first, _), (second, _) = list(twice)
print("augmentation is random:", bool(tf.reduce_any(first != second)))
print("result:", {name: values[-1] for name, values in history.history.items()})
