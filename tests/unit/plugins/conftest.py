"""Fixtures for the plugins' tests."""

import functools

import pytest
from support.plugin_drive import drive


@pytest.fixture
def train(tmp_path):
    """Trains with one plugin."""
    return functools.partial(drive, folder=tmp_path)
