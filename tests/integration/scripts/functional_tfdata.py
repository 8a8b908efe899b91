"""Train a small residual network on Fashion-MNIST with tf.data."""

from importlib.resources import files

import numpy as np
import tensorflow as tf
from tensorflow import keras

AUTOTUNE = tf.data.AUTOTUNE
BATCH_SIZE = 64
EPOCHS = 2

keras.utils.set_random_seed(7)


def load():
    archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
    train = archive["train_images"][:2000, ..., None], archive["train_labels"][:2000]
    validation = archive["validation_images"][:500, ..., None], archive["validation_labels"][:500]
    return train, validation


def normalize(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


def make_datasets():
    train, validation = load()
    train_ds = tf.data.Dataset.from_tensor_slices(train)
    train_ds = train_ds.shuffle(2000)
    train_ds = train_ds.map(normalize, num_parallel_calls=AUTOTUNE)
    train_ds = train_ds.batch(BATCH_SIZE).prefetch(AUTOTUNE)
    val_ds = tf.data.Dataset.from_tensor_slices(validation)
    val_ds = val_ds.map(normalize, num_parallel_calls=AUTOTUNE)
    val_ds = val_ds.batch(BATCH_SIZE).prefetch(AUTOTUNE)
    return train_ds, val_ds


def residual_block(x, filters):
    shortcut = keras.layers.Conv2D(filters, 1, strides=2, padding="same")(x)
    x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.Conv2D(filters, 3, padding="same")(x)
    return keras.layers.Add()([x, shortcut])


def make_model():
    inputs = keras.Input(shape=(28, 28, 1), name="image")
    x = residual_block(inputs, 8)
    x = residual_block(x, 16)
    x = keras.layers.GlobalAveragePooling2D()(x)
    outputs = keras.layers.Dense(10, name="logits")(x)
    return keras.Model(inputs, outputs, name="small_resnet")


def schedule(epoch, learning_rate):
    return learning_rate if epoch < 1 else learning_rate * 0.5


train_ds, val_ds = make_datasets()
model = make_model()
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(
    train_ds,
    epochs=EPOCHS,
    validation_data=val_ds,
    callbacks=[
        keras.callbacks.LearningRateScheduler(schedule),
        keras.callbacks.CSVLogger("training.csv"),
    ],
)
print("evaluate:", model.evaluate(val_ds, verbose=0, return_dict=True))
print("history: small_resnet", repr(history.history))
