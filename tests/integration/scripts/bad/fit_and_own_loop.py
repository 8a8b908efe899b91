"""Trains in a loop of its own, and then by `fit`."""

import keras
import numpy as np
import tensorflow as tf

x, y = np.ones((64, 3), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
