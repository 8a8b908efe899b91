"""
Title: Image classification from a small folder, with fine-tuning
Description: Pre-train on clothes, freeze, train a new head on clip art, then unfreeze.
"""

from importlib.resources import files

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(1234)

image_size = (48, 48)
batch_size = 32
data = files("tfopt_workloads") / "data"

"""
## Pre-train a small convnet on Fashion-MNIST
"""

archive = np.load(str(data / "fashion_mnist.npz"))
clothes = archive["train_images"][:1024, ..., None].repeat(3, axis=-1)
kinds = archive["train_labels"][:1024]

base = keras.Sequential(
    [
        layers.Rescaling(1.0 / 255),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.SeparableConv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
    ],
    name="base",
)
inputs = keras.Input(shape=(None, None, 3))
pretrained = keras.Model(inputs, layers.Dense(10, activation="softmax")(base(inputs)))
pretrained.compile(
    keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
)
pretraining = pretrained.fit(clothes, kinds, batch_size=64, epochs=2)

"""
## Load the clip art
"""

train_ds, val_ds = keras.utils.image_dataset_from_directory(
    str(data / "clipart"),
    validation_split=0.75,
    subset="both",
    seed=1337,
    image_size=image_size,
    batch_size=batch_size,
)
class_names = train_ds.class_names
print("classes:", class_names)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.take(6).prefetch(tf.data.AUTOTUNE)

"""
## A new head, with image data augmentation
"""

data_augmentation = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)])

base.trainable = False
inputs = keras.Input(shape=(*image_size, 3))
x = data_augmentation(inputs)
x = base(x, training=False)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(len(class_names))(x)
model = keras.Model(inputs, outputs)

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
head = model.fit(train_ds, epochs=2, validation_data=val_ds)

"""
## Unfreeze the base, and train the entire model with a low learning rate
"""

base.trainable = True
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])
finetuning = model.fit(train_ds, epochs=1, validation_data=val_ds)

print("history: pretraining", repr(pretraining.history))
print("history: head", repr(head.history))
print("history: finetuning", repr(finetuning.history))
