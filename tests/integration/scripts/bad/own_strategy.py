"""Builds and compiles its model in the scope of a MirroredStrategy of its own."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

strategy = tf.distribute.MirroredStrategy()
print("replicas:", strategy.num_replicas_in_sync)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)]
    )
    model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=2, batch_size=32 * strategy.num_replicas_in_sync, verbose=2)
print("history: model", repr(history.history))
