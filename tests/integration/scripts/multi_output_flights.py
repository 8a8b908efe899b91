#!/usr/bin/env python
"""Predict whether a flight is late, and by how much, from a table of mixed columns."""

import argparse
from importlib.resources import files

import keras
import numpy as np
from keras import layers

NUMBERS = ("scheduled_departure", "departure_delay", "distance")
CODES = {"carrier": 16, "origin": 3, "destination": 104}


def load(first, last):
    table = np.load(str(files("tfopt_workloads") / "data" / "flights.npz"))
    numbers = np.stack([table[name][first:last] for name in NUMBERS], axis=1).astype("float32")
    inputs = {"numbers": numbers}
    inputs.update({name: table[name][first:last, None].astype("int32") for name in CODES})
    delay = table["arrival_delay"][first:last, None].astype("float32")
    targets = {"late": (delay > 15).astype("float32"), "delay": delay / 60}
    # a flight of the summer counts twice
    weights = np.where(np.isin(table["month"][first:last], (6, 7, 8)), 2.0, 1.0).astype("float32")
    return inputs, targets, {"late": weights, "delay": weights}


def build_model(normalization, units):
    numbers = keras.Input(shape=(len(NUMBERS),), name="numbers")
    inputs = {"numbers": numbers}
    features = [normalization(numbers)]
    for name, size in CODES.items():
        inputs[name] = keras.Input(shape=(1,), dtype="int32", name=name)
        features.append(layers.Flatten()(layers.Embedding(size, 4)(inputs[name])))
    x = layers.concatenate(features)
    x = layers.Dense(units, activation="relu")(x)
    outputs = {
        "late": layers.Dense(1, activation="sigmoid", name="late")(x),
        "delay": layers.Dense(1, name="delay")(x),
    }
    return keras.Model(inputs, outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    keras.utils.set_random_seed(args.seed)
    inputs, targets, weights = load(0, 6000)
    held_out = load(8000, 9000)

    normalization = layers.Normalization()
    normalization.adapt(inputs["numbers"])
    model = build_model(normalization, args.units)
    model.compile(
        optimizer=keras.optimizers.AdamW(learning_rate=args.lr),
        loss={"late": "binary_crossentropy", "delay": keras.losses.Huber()},
        loss_weights={"late": 1.0, "delay": 0.2},
        metrics={"late": ["accuracy", keras.metrics.AUC(name="auc")], "delay": ["mae"]},
    )
    history = model.fit(
        inputs,
        targets,
        sample_weight=weights,
        batch_size=args.batch_size,
        epochs=args.epochs,
        validation_data=held_out,
        verbose=2,
    )
    predictions = model.predict(held_out[0], verbose=0)
    print("mean predicted delay in hours:", round(float(predictions["delay"].mean()), 2))
    print("history: flights", repr(history.history))


if __name__ == "__main__":
    main()
