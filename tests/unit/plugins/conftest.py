"""Fixtures for the plugins' tests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    """Trains with one plugin."""
    from support.plugin_drive import drive

    return functools.partial(drive, folder=tmp_path)
