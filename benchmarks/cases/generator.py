"""Sensor windows from a generator that does NumPy work on each element."""

import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)

N, LENGTH, CLASSES, BATCH = 6000, 256, 5, 32
rng = np.random.default_rng(1)
labels = rng.integers(0, CLASSES, N)
grid = np.arange(LENGTH)
raw = np.stack(
    [np.sin(grid * (0.05 + 0.02 * label)) + 2.2 * rng.normal(size=LENGTH) for label in labels]
)


def features(window):
    # slow on purpose of nobody: it grew over time
    window = (window - window.mean()) / (window.std() + 1e-6)
    smooth = np.convolve(window, np.hanning(9) / 4.0, mode="same")
    spectrum = np.abs(np.fft.rfft(smooth))[: LENGTH // 2]
    return np.stack([smooth[::2], spectrum], axis=-1).astype("float32")


def make_generator(first, last):
    def generator():
        for index in range(first, last):
            yield features(raw[index]), np.int64(labels[index])

    return generator


def make_dataset(first, last):
    return tf.data.Dataset.from_generator(
        make_generator(first, last),
        output_signature=(
            tf.TensorSpec(shape=(LENGTH // 2, 2), dtype=tf.float32),
            tf.TensorSpec(shape=(), dtype=tf.int64),
        ),
    )


train_ds = make_dataset(0, 5000).shuffle(500).batch(BATCH)
val_ds = make_dataset(5000, N).batch(BATCH)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((LENGTH // 2, 2)),
        tf.keras.layers.Conv1D(16, 7, strides=2, activation="relu"),
        tf.keras.layers.Conv1D(24, 5, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(CLASSES),
    ]
)
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

start = time.time()
history = model.fit(train_ds, validation_data=val_ds, epochs=8, verbose=2)
print("training took %.1f s" % (time.time() - start))
print("result:", {name: values[-1] for name, values in history.history.items()})
