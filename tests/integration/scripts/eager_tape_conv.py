"""A convolutional net trained by an eager GradientTape loop over tf.data, with a validation loop.

In the manner of "Writing a training loop from scratch", before its @tf.function.
"""

import argparse
from importlib.resources import files

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--images", type=int, default=1000)
args = parser.parse_args()

keras.utils.set_random_seed(42)

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x_train, y_train = archive["train_images"][: args.images], archive["train_labels"][: args.images]
x_val, y_val = archive["validation_images"][:500], archive["validation_labels"][:500]


def scale(image, label):
    return tf.cast(image[..., None], tf.float32) / 255.0, label


train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
train_dataset = train_dataset.map(scale).shuffle(buffer_size=1024).batch(64)
val_dataset = tf.data.Dataset.from_tensor_slices((x_val, y_val)).map(scale).batch(64)

model = keras.Sequential(
    [
        keras.Input(shape=(28, 28, 1)),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
optimizer = keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_metric = keras.metrics.SparseCategoricalAccuracy()
val_metric = keras.metrics.SparseCategoricalAccuracy()


def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits)
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights, strict=True))
    train_metric.update_state(y, logits)
    return loss_value


history = {"loss": [], "accuracy": [], "val_accuracy": []}
for epoch in range(args.epochs):
    mean = keras.metrics.Mean()
    for x_batch, y_batch in train_dataset:
        mean.update_state(train_step(x_batch, y_batch))
    for x_batch, y_batch in val_dataset:
        val_metric.update_state(y_batch, model(x_batch, training=False))
    history["loss"].append(float(mean.result()))
    history["accuracy"].append(float(train_metric.result()))
    history["val_accuracy"].append(float(val_metric.result()))
    train_metric.reset_state()
    val_metric.reset_state()
    print("epoch", epoch, {name: round(values[-1], 4) for name, values in history.items()})
print("history: eager_loop", repr(history))
