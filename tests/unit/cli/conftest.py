"""Fixtures for the tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.light_process import LightProcesses, light_processes


@pytest.fixture(scope="session")
def light() -> Iterator[LightProcesses]:
    """Runs commands of which it counts what they import."""
    with light_processes() as processes:
        yield processes
