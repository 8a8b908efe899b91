"""
Title: Image segmentation with a U-Net-like architecture
Description: Find the garment in a noisy picture; its silhouette is the mask.
"""

from importlib.resources import files

import keras
import numpy as np
from keras import layers
from tensorflow import data as tf_data

keras.utils.set_random_seed(8)

img_size = (32, 32)
batch_size = 32

"""
## A noisy picture, and the mask of the garment in it
"""


def load(kind, count):
    archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
    images = np.pad(archive[f"{kind}_images"][:count], ((0, 0), (2, 2), (2, 2)))[..., None]
    masks = (images > 30).astype("uint8")
    noise = np.random.default_rng(count).normal(0, 60, size=images.shape)
    return (images + noise).astype("float32") / 255, masks


def get_dataset(kind, count):
    dataset = tf_data.Dataset.from_tensor_slices(load(kind, count))
    return dataset.batch(batch_size)


train_dataset = get_dataset("train", 960).cache().prefetch(tf_data.AUTOTUNE)
valid_dataset = get_dataset("validation", 320)

"""
## Prepare U-Net model
"""


def get_model(img_size, num_classes):
    inputs = keras.Input(shape=(*img_size, 1))

    # [First half of the network: downsampling inputs]
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    skips = []
    for filters in [8, 16]:
        skips.append(x)
        x = layers.SeparableConv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)

    # [Second half of the network: upsampling inputs]
    for filters in [16, 8]:
        x = layers.Conv2DTranspose(filters, 3, padding="same", activation="relu")(x)
        x = layers.UpSampling2D(2)(x)
        x = layers.Concatenate()([x, skips.pop()])

    outputs = layers.Conv2D(num_classes, 3, activation="softmax", padding="same")(x)
    return keras.Model(inputs, outputs)


model = get_model(img_size, num_classes=2)

"""
## Train the model, ten steps in each call of the compiled function
"""

model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    steps_per_execution=10,
)
history = model.fit(train_dataset, epochs=2, validation_data=valid_dataset, verbose=2)

val_preds = model.predict(valid_dataset, verbose=0)
mask = np.argmax(val_preds[0], axis=-1)
print("pixels of the first garment:", int(mask.sum()))
print("history: unet", repr(history.history))
