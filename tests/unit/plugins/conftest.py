"""Fixtures for the plugins' tests."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# pytest's importlib mode puts no test folder on the path, and the tests here share plugin_drive
sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Trains with one plugin; the dtype policy is put back afterwards."""
    import keras
    from plugin_drive import drive

    yield functools.partial(drive, folder=tmp_path)
    keras.config.set_dtype_policy("float32")
