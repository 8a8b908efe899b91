"""
Title: Transfer learning on a small folder of pictures
Description: A new head on a frozen base, then a new compile with the base unfrozen.
"""

from importlib.resources import files

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(1234)
data = files("tfopt_workloads") / "data"

train_ds, val_ds = keras.utils.image_dataset_from_directory(
    str(data / "clipart"),
    validation_split=0.9,
    subset="both",
    seed=1337,
    image_size=(32, 32),
    batch_size=32,
)
val_ds = val_ds.take(2)

base = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.BatchNormalization(),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
    ],
    name="base",
)
base.trainable = False

inputs = keras.Input(shape=(32, 32, 3))
x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(inputs)
x = base(x, training=False)
x = layers.GlobalAveragePooling2D(name="pool")(x)
outputs = layers.Dense(8)(x)
model = keras.Model(inputs, outputs)

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
head = model.fit(train_ds, epochs=3, validation_data=val_ds)

# the model takes pictures, and is saved whole
print("whole:", np.asarray(model(np.zeros((1, 32, 32, 3), "float32"))).shape)
model.save("whole.keras")
loaded = keras.saving.load_model("whole.keras")
pictures = next(iter(val_ds))[0]
np.testing.assert_allclose(
    loaded.predict(pictures, verbose=0), model.predict(pictures, verbose=0), rtol=1e-5
)

base.trainable = True
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])
finetuning = model.fit(train_ds, epochs=1, validation_data=val_ds)

print("history: head", repr(head.history))
print("history: finetuning", repr(finetuning.history))
