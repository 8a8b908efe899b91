"""Raises ValueError in a helper of a helper, before it trains."""

import keras
import numpy as np


def to_number(text):
    return float(text)


def read_rows(lines):
    return np.array([[to_number(cell) for cell in line.split(",")] for line in lines])


def main():
    rows = read_rows(["1.0,2.0,3.0", "4.0,five,6.0"])
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(rows[:, :2], rows[:, 2:], epochs=2)


if __name__ == "__main__":
    main()
