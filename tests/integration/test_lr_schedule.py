"""A schedule beside ReduceLROnPlateau is refused before anything is trained."""

from __future__ import annotations

import pytest
from support.real_process import make_project, tfopt

pytestmark = pytest.mark.slow

RECIPE = """
    name = "both"
    [workload]
    script = "train.py"
    [[plugins]]
    use = "lr-schedule"
    [measure]
    target = { metric = "val_loss", at_most = 0.9 }
"""
TRAIN = """
    import keras
    import numpy as np

    x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    plateau = keras.callbacks.ReduceLROnPlateau(patience=1)
    model.fit(x, x[:, :1], validation_split=0.2, epochs=3, verbose=0, callbacks=[plateau])
    print("trained to the end")
"""


def test_nothing_is_trained_beside_a_callback_that_sets_the_rate(tmp_path):
    project = make_project(tmp_path, RECIPE, train=TRAIN)
    done = tfopt("apply", "recipe.toml", cwd=project, imported=True)
    assert done.code == 2
    assert "callback ReduceLROnPlateau sets the learning rate too" in done.err
    assert "take it out of the callbacks, or lr-schedule out of the recipe" in done.err
    assert "trained to the end" not in done.out + done.err
    assert "round 1" not in done.out
