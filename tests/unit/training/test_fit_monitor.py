"""The order of the callbacks of a fit: tfopt's own stand around the user's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.fit_monitor import FitMonitor

pytestmark = pytest.mark.tensorflow


def test_steps_end_before_the_user_s_callbacks_and_the_last_sees_what_all_have_done():
    calls = []

    def noting(name, **more):
        return SimpleNamespace(on_epoch_end=lambda epoch, logs=None: calls.append(name), **more)

    clock = noting("clock", end_steps=lambda: calls.append("steps end"))
    monitor = noting("monitor", clock=clock, counter=noting("counts"), batches=None)
    users = [keras_callback(noting("first")), keras_callback(noting("second"))]
    for callback in FitMonitor.callbacks(monitor, users, noting("checkpoints")):
        callback.on_epoch_end(0)
    assert calls == ["steps end", "counts", "first", "second", "clock", "monitor", "checkpoints"]
