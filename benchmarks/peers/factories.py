"""The seven trainings of the race as tfopt's factories, each timed by the same Keras callback."""

from __future__ import annotations

from typing import Any

import attrs
import networks
from tfopt_workloads import clipart_jpeg, stdlib_text, weather

from peers.keras_clock import clock_of_environment
from tfopt_core import Workload


def _timed(workload: Workload) -> Workload:
    return attrs.evolve(workload, callbacks=clock_of_environment)


def mlp(examples: int = 10_000) -> Workload:
    """Return a 64-128-64-10 network over 10,000 rows of 64 numbers."""
    return _timed(networks.mlp(examples))


def cnn(examples: int = 4_096) -> Workload:
    """Return three convolutions over 4,096 pictures of 32x32x3."""
    return _timed(networks.cnn(examples))


def lstm(examples: int | None = None) -> Workload:
    """Return an LSTM of 64 units over windows of 48 hours of weather."""
    return _timed(weather.build(examples=examples))


def transformer(examples: int = 6_000) -> Workload:
    """Return two Transformer blocks of width 64 over 6,000 texts of 64 tokens."""
    return _timed(stdlib_text.build(examples=examples))


def jpeg(examples: int | None = None) -> Workload:
    """Return four convolutions over a folder of JPEG files, mirrored at random."""
    return _timed(clipart_jpeg.build(examples=examples))


def autoencoder(examples: int = 4_096) -> Workload:
    """Return convolutions and transposed convolutions that reproduce pictures of 28x28."""
    return _timed(networks.autoencoder(examples))


def gru(examples: int = 8_000) -> Workload:
    """Return a GRU of 128 units that predicts each next character of Python source."""
    return _timed(networks.characters(examples))


ALL: dict[str, Any] = {
    function.__name__: function
    for function in (mlp, cnn, lstm, jpeg, transformer, autoencoder, gru)
}
