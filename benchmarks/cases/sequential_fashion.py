"""
Title: Simple Fashion-MNIST convnet
Description: A small convnet that classifies pictures of clothes.
"""

from importlib.resources import files

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(42)

"""
## Prepare the data
"""

num_classes = 10
input_shape = (28, 28, 1)

with np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz")) as data:
    x_train, y_train = data["train_images"][:2500], data["train_labels"][:2500]
    x_test, y_test = data["validation_images"][:1000], data["validation_labels"][:1000]

# Scale images to the [0, 1] range
x_train = np.expand_dims(x_train.astype("float32") / 255, -1)
x_test = np.expand_dims(x_test.astype("float32") / 255, -1)
print("x_train shape:", x_train.shape)
print(x_train.shape[0], "train samples")
print(x_test.shape[0], "test samples")

# Convert class vectors to binary class matrices
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

"""
## Build the model
"""

model = keras.Sequential(
    [
        keras.Input(shape=input_shape),
        layers.Conv2D(16, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Conv2D(32, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(num_classes, activation="softmax"),
    ]
)
model.summary()

"""
## Train the model
"""

batch_size = 64
epochs = 3

model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=batch_size, epochs=epochs, validation_split=0.1)

"""
## Evaluate the trained model
"""

score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])

print("history: model", repr(history.history))
