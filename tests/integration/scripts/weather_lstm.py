"""
Title: Timeseries forecasting for weather
Description: An LSTM that forecasts the temperature, on sliding windows.
"""

from importlib.resources import files

import keras
import numpy as np

keras.utils.set_random_seed(11)

archive = np.load(str(files("tfopt_workloads") / "data" / "weather.npz"))
here = archive["airport"] == 1
titles = ["temperature", "dew_point", "humidity", "wind_speed", "pressure", "visibility"]
features = np.stack([archive[title][here] for title in titles], axis=1).astype("float32")
features = features[np.isfinite(features).all(axis=1)][:4000]

"""
## Normalize by the training part
"""

train_split = 3000
mean, std = features[:train_split].mean(axis=0), features[:train_split].std(axis=0)
features = (features - mean) / std

"""
## Windows of two days, to forecast six hours ahead
"""

past, future, step, batch_size = 48, 6, 2, 128
sequence_length = past // step


def windows(part):
    return keras.utils.timeseries_dataset_from_array(
        part[: -(past + future)],
        part[past + future :, :1],
        sequence_length=sequence_length,
        sampling_rate=step,
        batch_size=batch_size,
    )


dataset_train = windows(features[:train_split])
dataset_val = windows(features[train_split:])

inputs = keras.layers.Input(shape=(sequence_length, len(titles)))
lstm_out = keras.layers.LSTM(24)(inputs)
outputs = keras.layers.Dense(1)(lstm_out)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.01), loss="mse")

path_checkpoint = "model_checkpoint.weights.h5"
history = model.fit(
    dataset_train,
    epochs=3,
    validation_data=dataset_val,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_delta=1),
        keras.callbacks.ModelCheckpoint(
            monitor="val_loss",
            filepath=path_checkpoint,
            verbose=1,
            save_weights_only=True,
            save_best_only=True,
        ),
    ],
)
for x, y in dataset_val.take(1):
    print("forecast:", model.predict(x[:2], verbose=0).ravel(), "truth:", y[:2].numpy().ravel())
print("history: forecast", repr(history.history))
