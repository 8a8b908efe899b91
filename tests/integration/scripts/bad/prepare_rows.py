"""Writes the folder `rows` that deletes_its_data.py reads and deletes."""

import pathlib

import numpy as np

folder = pathlib.Path("rows")
folder.mkdir(exist_ok=True)
rng = np.random.default_rng(0)
for number in range(4):
    np.save(folder / f"part{number}.npy", rng.normal(size=(128, 5)).astype("float32"))
print("wrote", len(list(folder.iterdir())), "files")
