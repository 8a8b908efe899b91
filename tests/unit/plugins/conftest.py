"""Fixtures for the plugins' tests."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.plugin_drive import drive


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    """Trains with one plugin."""
    return functools.partial(drive, folder=tmp_path)
