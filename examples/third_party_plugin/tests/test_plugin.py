"""The plugin keeps tfopt's contract, and Keras really does what it asks for."""

from __future__ import annotations

from typing import Any

import pytest
from tfopt_fewer_updates.plugin import FewerUpdates

from tfopt_core.plugins import TrainingOptions
from tfopt_core.testing import check_plugin, make_run


def trained(optimizer: Any, steps: int) -> Any:
    """A one-weight model after eight steps on the same example."""
    import keras
    import numpy as np

    options = FewerUpdates(steps=steps).configure_training(
        make_run(), TrainingOptions(optimizer=optimizer, loss="mse")
    )
    config = optimizer.get_config()
    config["gradient_accumulation_steps"] = options.gradient_accumulation_steps
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense])
    model.compile(type(optimizer).from_config(config), loss=options.loss)
    model.fit(np.ones((8, 1)), np.ones((8, 1)), batch_size=1, epochs=1, verbose=0)
    return model


def test_keeps_the_contract() -> None:
    check_plugin("fewer-updates", FewerUpdates)


def test_sets_the_steps() -> None:
    before = TrainingOptions(optimizer="adam")
    after = FewerUpdates(steps=8).configure_training(make_run(), before)
    assert after.gradient_accumulation_steps == 8


def test_one_step_is_refused() -> None:
    with pytest.raises(ValueError, match="steps"):
        FewerUpdates(steps=1)


def test_weights_change_once_in_so_many_steps() -> None:
    import keras

    model = trained(keras.optimizers.SGD(0.1), steps=8)
    # eight equal gradients of -2, averaged: one step of 0.1
    assert float(model.get_weights()[0].item()) == pytest.approx(0.2)


def test_effect_is_read_back_from_the_optimizer() -> None:
    import keras

    plugin, run = FewerUpdates(steps=4), make_run()
    run.state_of(plugin)["own"] = None
    there = plugin.report_effect(run, trained(keras.optimizers.Adam(), steps=4))
    missing = plugin.report_effect(run, trained(keras.optimizers.Adam(), steps=2))
    assert there.applied
    assert there.detail == "one update every 4 steps"
    assert not missing.applied


def test_optimizer_that_accumulates_is_left_alone() -> None:
    import keras

    own = keras.optimizers.Adam(gradient_accumulation_steps=3)
    before = TrainingOptions(optimizer=own)
    assert FewerUpdates().configure_training(make_run(), before) is before
