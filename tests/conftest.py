"""What holds for every test: how TensorFlow starts, here and in the processes that tests start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tfopt_core.measure.fork import ForkRunner

# A worker for each core runs tests, and TensorFlow would take all cores for each of them.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


@pytest.fixture(scope="session")
def forked_runs() -> Iterator[ForkRunner]:
    """Carries out runs in forks of one process, which imports TensorFlow once for all tests."""
    from tfopt_core.measure.fork import ForkRunner

    with ForkRunner() as runner:
        yield runner
