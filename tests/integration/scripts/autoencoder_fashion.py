# Denoising with a convolutional autoencoder, and after that anomaly detection with a dense one.
# It sets no seed.
from importlib.resources import files

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, losses
from tensorflow.keras.models import Model

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x_train = archive["train_images"][:1000].astype("float32") / 255.0
x_test = archive["validation_images"][:300].astype("float32") / 255.0
x_train, x_test = x_train[..., tf.newaxis], x_test[..., tf.newaxis]
print(x_train.shape)

noise_factor = 0.2
x_train_noisy = x_train + noise_factor * tf.random.normal(shape=x_train.shape)
x_test_noisy = x_test + noise_factor * tf.random.normal(shape=x_test.shape)
x_train_noisy = tf.clip_by_value(x_train_noisy, 0.0, 1.0)
x_test_noisy = tf.clip_by_value(x_test_noisy, 0.0, 1.0)


class Denoise(Model):
    def __init__(self):
        super().__init__()
        self.encoder = tf.keras.Sequential(
            [
                layers.Input(shape=(28, 28, 1)),
                layers.Conv2D(8, (3, 3), activation="relu", padding="same", strides=2),
                layers.Conv2D(4, (3, 3), activation="relu", padding="same", strides=2),
            ]
        )
        self.decoder = tf.keras.Sequential(
            [
                layers.Conv2DTranspose(4, 3, strides=2, activation="relu", padding="same"),
                layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same"),
                layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same"),
            ]
        )

    def call(self, x):
        return self.decoder(self.encoder(x))


class AnomalyDetector(Model):
    def __init__(self, units=16):
        super().__init__()
        self.encoder = layers.Dense(units, activation="relu")
        self.decoder = layers.Dense(28 * 28, activation="sigmoid")

    def call(self, x, training=False):
        return self.decoder(self.encoder(x))


autoencoder = Denoise()
autoencoder.compile(optimizer="adam", loss=losses.MeanSquaredError())
denoising = autoencoder.fit(
    x_train_noisy,
    x_train,
    epochs=2,
    shuffle=True,
    validation_data=(x_test_noisy, x_test),
)
decoded_imgs = autoencoder.decoder(autoencoder.encoder(x_test[:8])).numpy()
print("decoded:", decoded_imgs.shape)

flat_train, flat_test = x_train.reshape(-1, 784), x_test.reshape(-1, 784)
detector = AnomalyDetector()
detector.compile(optimizer="adam", loss="mae")
detecting = detector.fit(flat_train, flat_train, epochs=2, batch_size=128, validation_split=0.1)
errors = tf.keras.losses.mae(detector.predict(flat_test, verbose=0), flat_test)
print("threshold:", float(np.mean(errors) + np.std(errors)))

print("history: denoise", repr(denoising.history))
print("history: detector", repr(detecting.history))
