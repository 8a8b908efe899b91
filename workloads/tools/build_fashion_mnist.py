"""Rebuild `tfopt_workloads/data/fashion_mnist.npz` from the original Fashion-MNIST files.

    python workloads/tools/build_fashion_mnist.py [FOLDER] [--output FILE]

FOLDER holds the four gzip idx files; it defaults to where the Debian package
`dataset-fashion-mnist` puts them. Needs NumPy and an installed tfopt, no TensorFlow.

Images are ordered by the SHA-256 of their pixels, so the choice needs no random generator, and
taken evenly from the classes: every prefix of the file is balanced. An image that occurs twice
is taken once, and no validation image occurs anywhere among the 60,000 original training images.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Container
from pathlib import Path

import numpy as np
from _npz import report, write_npz
from tfopt_workloads.idx import FILES, read_idx
from tfopt_workloads.locations import BUNDLED, FASHION_MNIST_FOLDER

TRAIN_PER_CLASS = 1_000
VALIDATION_PER_CLASS = 500
CLASSES = 10


def image_hashes(images: np.ndarray) -> list[bytes]:
    """The SHA-256 of each image's pixels."""
    return [hashlib.sha256(image.tobytes()).digest() for image in images]


def balanced_choice(
    hashes: list[bytes], labels: np.ndarray, per_class: int, exclude: Container[bytes] = ()
) -> np.ndarray:
    """Indices of `per_class` distinct images of each class, classes in turn.

    :raises SystemExit: if a class holds fewer.
    """
    chosen: list[list[int]] = [[] for _ in range(CLASSES)]
    seen: set[bytes] = set()
    for index in sorted(range(len(hashes)), key=lambda i: (hashes[i], i)):
        of_class = chosen[labels[index]]
        if len(of_class) < per_class and hashes[index] not in seen and hashes[index] not in exclude:
            of_class.append(index)
            seen.add(hashes[index])
    for label, of_class in enumerate(chosen):
        if len(of_class) < per_class:
            raise SystemExit(f"class {label} has {len(of_class)} images, {per_class} are needed")
    return np.array(chosen).T.reshape(-1)


def bundle(folder: Path, train_per_class: int, validation_per_class: int) -> dict[str, np.ndarray]:
    """The arrays of the bundled file."""
    arrays = {name: read_idx(folder / file) for name, file in FILES.items()}
    train_hashes = image_hashes(arrays["train_images"])
    train = balanced_choice(train_hashes, arrays["train_labels"], train_per_class)
    validation = balanced_choice(
        image_hashes(arrays["validation_images"]),
        arrays["validation_labels"],
        validation_per_class,
        exclude=set(train_hashes),
    )
    return {
        name: values[train if name.startswith("train") else validation]
        for name, values in arrays.items()
    }


def main() -> None:
    """Read the originals, write the bundled file, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FASHION_MNIST_FOLDER)
    parser.add_argument("--output", type=Path, default=BUNDLED / "fashion_mnist.npz")
    parser.add_argument("--train-per-class", type=int, default=TRAIN_PER_CLASS)
    parser.add_argument("--validation-per-class", type=int, default=VALIDATION_PER_CLASS)
    arguments = parser.parse_args()
    arrays = bundle(arguments.folder, arguments.train_per_class, arguments.validation_per_class)
    write_npz(arguments.output, arrays)
    print(report(arguments.output, arrays))


if __name__ == "__main__":
    main()
