"""The idx format in which the MNIST family of data sets is published."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

# what the original distribution calls its files; its test set is our validation set
FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "validation_images": "t10k-images-idx3-ubyte.gz",
    "validation_labels": "t10k-labels-idx1-ubyte.gz",
}

_UNSIGNED_BYTE = 8


def read_idx(path: Path) -> Any:
    """The uint8 array in a gzip idx file: two zeros, a type, the rank, the sizes, the values.

    :raises OSError: if the file cannot be read or unpacked.
    :raises ValueError: if it holds something else.
    """
    import numpy as np

    try:
        raw = gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error) as error:
        raise ValueError(f'"{path}" is damaged: {error}') from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _UNSIGNED_BYTE:
        raise ValueError(f'"{path}" is no idx file of unsigned bytes')
    rank = raw[3]
    if len(raw) < 4 + 4 * rank:
        raise ValueError(f'"{path}" ends within its header')
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * rank)
    if values.size != np.prod(shape):
        raise ValueError(f'"{path}" holds {values.size} values, its header says {shape}')
    return values.reshape(shape)


def idx_length(path: Path) -> int:
    """How many items a gzip idx file holds, read from its header alone, without NumPy.

    :raises OSError: if the file cannot be read or unpacked.
    :raises ValueError: if it holds something else.
    """
    try:
        with gzip.open(path) as stream:
            start = stream.read(8)
    except (EOFError, zlib.error) as error:
        raise ValueError(f'"{path}" is damaged: {error}') from error
    if len(start) < 8 or start[:2] != b"\0\0" or start[2] != _UNSIGNED_BYTE:
        raise ValueError(f'"{path}" is no idx file of unsigned bytes')
    return int.from_bytes(start[4:], "big")
