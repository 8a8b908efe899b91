"""The Keras callback by which all systems that train with Keras are timed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import keras

from peers.contestant import EpochTimer, Patience, Report

REPORT, STARTED, EPOCHS = "PEERS_REPORT", "PEERS_STARTED", "PEERS_EPOCHS"


class EpochClock(keras.callbacks.Callback):
    """Times the training of each epoch, without its validation."""

    def __init__(self, timer: EpochTimer) -> None:
        super().__init__()
        self.timer = timer
        self._seconds = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch's training."""
        self.timer.begin()

    def on_test_begin(self, logs: Any = None) -> None:
        """End an epoch's training where its validation begins, when all of it is computed."""
        if keras.backend.backend() == "jax":
            import jax

            jax.block_until_ready([v.value for v in self.model.trainable_variables])
        self._seconds = self.timer.passed()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Note an epoch, and stop after the last one."""
        self.timer.end(self._seconds, float(logs["loss"]), float(logs["val_loss"]))
        if self.timer.is_over:
            self.model.stop_training = True


class ReportWriter(keras.callbacks.Callback):
    """Writes the report of a clock when the training ends."""

    def __init__(self, report: Report, out: Path) -> None:
        super().__init__()
        self.report, self.out = report, out

    def on_train_end(self, logs: Any = None) -> None:
        """Write the report."""
        self.report.write(self.out)


class EarlyEnd(keras.callbacks.Callback):
    """Ends a try of the grid whose epoch takes far longer than the best one so far."""

    def __init__(self, report: Report, patience: Patience) -> None:
        super().__init__()
        self.report, self.patience = report, patience
        self._since: float | None = None
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin to count, in the first epoch after the first step, which compiles."""
        self._epoch, self._since = epoch, time.monotonic() if epoch else None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Stop where the patience is spent."""
        if self._since is None:
            self._since = time.monotonic()
        elif self.patience.is_spent(time.monotonic() - self._since, self._epoch):
            self.report.cut = self.model.stop_training = True


def clock_of_environment() -> list[keras.callbacks.Callback]:
    """Return the clock whose report the environment names; none without one."""
    if REPORT not in os.environ:
        return []
    timer = EpochTimer(float(os.environ[STARTED]), int(os.environ[EPOCHS]))
    return [EpochClock(timer), ReportWriter(timer.report, Path(os.environ[REPORT]))]
