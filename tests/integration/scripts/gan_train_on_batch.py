"""A GAN in the classic way: two compiled models that `train_on_batch` trains in turns."""

import argparse
from importlib.resources import files

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)
LATENT_DIM = 32

archive = np.load(str(files("tfopt_workloads") / "data" / "fashion_mnist.npz"))
x_train = archive["train_images"][:2000, ..., None].astype("float32") / 127.5 - 1.0

discriminator = keras.Sequential(
    [
        keras.Input(shape=(28, 28, 1)),
        layers.Conv2D(16, 3, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(32, 3, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1, activation="sigmoid"),
    ],
    name="discriminator",
)
discriminator.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.0002, 0.5))

generator = keras.Sequential(
    [
        keras.Input(shape=(LATENT_DIM,)),
        layers.Dense(7 * 7 * 16),
        layers.Reshape((7, 7, 16)),
        layers.Conv2DTranspose(16, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
    ],
    name="generator",
)

# The combined model: only the generator is trained in it
critic = keras.models.clone_model(discriminator)
critic.trainable = False
noise_input = keras.Input(shape=(LATENT_DIM,))
combined = keras.Model(noise_input, critic(generator(noise_input)), name="combined")
combined.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.0002, 0.5))

valid, fake = np.ones((args.batch_size, 1)), np.zeros((args.batch_size, 1))
history = {"d_loss": [], "g_loss": []}
for iteration in range(args.iterations):
    rows = rng.integers(0, len(x_train), args.batch_size)
    noise = rng.normal(size=(args.batch_size, LATENT_DIM)).astype("float32")
    made = generator.predict_on_batch(noise)
    d_loss_real = discriminator.train_on_batch(x_train[rows], valid)
    d_loss_fake = discriminator.train_on_batch(made, fake)
    critic.set_weights(discriminator.get_weights())
    g_loss = combined.train_on_batch(noise, valid)
    history["d_loss"].append(0.5 * float(np.add(d_loss_real, d_loss_fake)))
    history["g_loss"].append(float(g_loss))
    if iteration % 10 == 0:
        print(iteration, {name: round(values[-1], 4) for name, values in history.items()})
print("history: gan_batches", repr(history))
