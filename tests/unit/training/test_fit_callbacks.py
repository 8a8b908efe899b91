"""The order of the callbacks of a fit: tfopt's own stand around the user's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.fit_callbacks import fit_callbacks

pytestmark = pytest.mark.tensorflow


def test_steps_end_before_the_user_s_callbacks_and_the_last_sees_what_all_have_done():
    calls = []

    def noting(name):
        return SimpleNamespace(on_epoch_end=lambda epoch, logs=None: calls.append(name))

    timer = noting("timer")
    timer.built, timer.clock = None, SimpleNamespace(end_steps=lambda: calls.append("steps end"))
    timer.counter, timer.batches = noting("counts"), None
    users = [keras_callback(noting("first")), keras_callback(noting("second"))]
    for callback in fit_callbacks(users, timer, noting("hooks"), noting("checkpoints")):
        callback.on_epoch_end(0)
    assert calls == ["steps end", "counts", "first", "second", "timer", "hooks", "checkpoints"]
