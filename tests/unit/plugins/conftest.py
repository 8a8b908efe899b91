"""Fixtures for the plugins' tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Trains with one plugin; the dtype policy is put back afterwards."""
    import keras
    from support.plugin_drive import drive

    yield functools.partial(drive, folder=tmp_path)
    keras.config.set_dtype_policy("float32")
