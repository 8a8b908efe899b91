"""Read the bundled npz files."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from typing import Any

from tfopt_core import WorkloadError
from tfopt_workloads.locations import BUNDLED


def load(name: str) -> dict[str, Any]:
    """The arrays of `data/<name>.npz`, by name.

    :raises WorkloadError: if the file is missing or damaged.
    """
    import numpy as np

    path = BUNDLED / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise WorkloadError(
            f'the bundled data "{path}" cannot be read ({error}); install tfopt again'
        ) from error


def lengths(path: Path) -> dict[str, int]:
    """The length of each array in an npz file, read from the headers alone, without NumPy.

    :raises OSError: if the file cannot be read.
    :raises ValueError: if it is no npz file.
    """
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as stream:
                    start = stream.read(10)  # magic, version 1.0, length of the header
                    header = ast.literal_eval(
                        stream.read(int.from_bytes(start[8:], "little")).decode("latin-1")
                    )
                found[member.removesuffix(".npy")] = int(header["shape"][0])
    except (zipfile.BadZipFile, SyntaxError, LookupError, TypeError) as error:
        raise ValueError(f'"{path}" is no npz file: {error}') from error
    return found
