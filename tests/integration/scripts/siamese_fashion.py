"""
Title: Image similarity estimation using a Siamese network with a contrastive loss
Description: Are two pictures of the same kind of garment?
"""

from importlib.resources import files

import keras
import numpy as np
from keras import ops

epochs = 2
batch_size = 64
margin = 1.0

keras.utils.set_random_seed(21)


def make_pairs(x, y, seed):
    """Each picture with one of its kind (label 0), and with one of another kind (label 1)."""
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(y == kind) for kind in range(10)]
    first, second, labels = [], [], []
    for picture, kind in zip(x, y, strict=True):
        other = (kind + rng.integers(1, 10)) % 10
        first += [picture, picture]
        second += [x[rng.choice(rows[kind])], x[rng.choice(rows[other])]]
        labels += [0.0, 1.0]
    return np.array(first), np.array(second), np.array(labels, "float32")


archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x = archive["train_images"][:1500].astype("float32") / 255
y = archive["train_labels"][:1500].astype(int)
train_1, train_2, labels_train = make_pairs(x[:1000], y[:1000], seed=0)
val_1, val_2, labels_val = make_pairs(x[1000:], y[1000:], seed=1)


def euclidean_distance(vects):
    x, y = vects
    sum_square = ops.sum(ops.square(x - y), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(sum_square, keras.backend.epsilon()))


def contrastive_loss(y_true, y_pred):
    square_pred = ops.square(y_pred)
    margin_square = ops.square(ops.maximum(margin - y_pred, 0))
    return ops.mean((1 - y_true) * square_pred + y_true * margin_square)


inputs = keras.layers.Input((28, 28, 1))
x = keras.layers.Conv2D(4, (5, 5), activation="tanh")(inputs)
x = keras.layers.AveragePooling2D(pool_size=(2, 2))(x)
x = keras.layers.Conv2D(8, (5, 5), activation="tanh")(x)
x = keras.layers.AveragePooling2D(pool_size=(2, 2))(x)
x = keras.layers.Dense(10, activation="tanh")(keras.layers.Flatten()(x))
embedding_network = keras.Model(inputs, x)

input_1 = keras.layers.Input((28, 28, 1))
input_2 = keras.layers.Input((28, 28, 1))
towers = [embedding_network(input_1), embedding_network(input_2)]
distance = keras.layers.Lambda(euclidean_distance, output_shape=(1,))(towers)
siamese = keras.Model(inputs=[input_1, input_2], outputs=distance)

siamese.compile(
    loss=contrastive_loss,
    optimizer="RMSprop",
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.5, name="accuracy")],
)
siamese.summary()
history = siamese.fit(
    [train_1, train_2],
    labels_train,
    validation_data=([val_1, val_2], labels_val),
    batch_size=batch_size,
    epochs=epochs,
)
results = siamese.evaluate([val_1, val_2], labels_val, verbose=0)
print("validation loss, accuracy:", results)
print("history: siamese", repr(history.history))
