"""A training loop written from scratch with GradientTape: `fit` is never called."""

from importlib.resources import files

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(42)

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x_train = archive["train_images"][:4000].reshape(-1, 784).astype("float32") / 255
y_train = archive["train_labels"][:4000]
train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
train_dataset = train_dataset.shuffle(buffer_size=1024).batch(64)

inputs = keras.Input(shape=(784,), name="digits")
x = keras.layers.Dense(64, activation="relu")(inputs)
outputs = keras.layers.Dense(10)(x)
model = keras.Model(inputs=inputs, outputs=outputs)
optimizer = keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss_value = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    return loss_value


losses = []
for epoch in range(2):
    mean = keras.metrics.Mean()
    for x_batch, y_batch in train_dataset:
        mean.update_state(train_step(x_batch, y_batch))
    losses.append(float(mean.result()))
    print(f"epoch {epoch}: loss {losses[-1]:.4f}")
print("history: loop", repr({"loss": losses}))
