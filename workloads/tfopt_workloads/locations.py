"""Where the originals and the bundled data lie on a machine."""

from __future__ import annotations

import os
from pathlib import Path

BUNDLED = Path(__file__).parent / "data"
LICENSES = Path(__file__).parent / "licenses"

FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_MNIST_PACKAGE = "dataset-fashion-mnist"


def keras_cache() -> Path:
    """The folder in which `keras.datasets` keeps what it downloaded."""
    home = os.environ.get("KERAS_HOME")
    return (Path(home) if home else Path.home() / ".keras") / "datasets"
