"""Classify chords from their waveform: an STFT layer and a small convnet, compiled by XLA."""

import keras
import numpy as np
from keras import layers

SAMPLING_RATE = 4000
SAMPLES = 2000
CHORDS = {"major": (1, 5 / 4, 3 / 2), "minor": (1, 6 / 5, 3 / 2), "fifth": (1, 3 / 2, 2)}

keras.utils.set_random_seed(16)
rng = np.random.default_rng(16)


def synthesize(count):
    """Waveforms (count, SAMPLES) float32 and the chord of each."""
    kinds = rng.integers(0, len(CHORDS), size=count)
    roots = rng.uniform(200, 500, size=count)
    seconds = np.arange(SAMPLES) / SAMPLING_RATE
    waves = np.zeros((count, SAMPLES))
    for voice in range(3):
        ratio = np.array([chord[voice] for chord in CHORDS.values()])[kinds]
        phase = rng.uniform(0, 2 * np.pi, size=(count, 1))
        waves += np.sin(2 * np.pi * (roots * ratio)[:, None] * seconds + phase)
    waves += rng.normal(0, 0.5, size=waves.shape)
    return waves.astype("float32"), kinds.astype("int32")


x_train, y_train = synthesize(640)
x_val, y_val = synthesize(160)

model = keras.Sequential(
    [
        layers.Input((SAMPLES, 1)),
        layers.STFTSpectrogram(
            mode="log",
            frame_length=256,
            frame_step=128,
            trainable=False,
            data_format="channels_last",
        ),
        layers.LayerNormalization(),
        layers.Conv1D(32, 3, activation="relu", strides=2),
        layers.Dropout(0.2),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(len(CHORDS), activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    jit_compile=True,
)
history = model.fit(
    x_train[..., None],
    y_train,
    batch_size=32,
    epochs=2,
    validation_data=(x_val[..., None], y_val),
)
print("history: chords", repr(history.history))
