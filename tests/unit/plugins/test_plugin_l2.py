"""L2 penalties really are part of the loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.lazy_modules import keras
from support.plugin_drive import Driven
from tfopt_model.l2 import L2, add_l2


def layers(*given: Any, built: bool = True) -> Any:
    start = [keras.Input((6, 4))] if built else []
    return keras.Sequential([*start, *given])


@pytest.mark.tensorflow
@pytest.mark.parametrize("built", [True, False])
def test_penalties_are_losses_of_the_model(built: bool) -> None:
    model = layers(
        keras.layers.Conv1D(3, 2, name="conv"),
        keras.layers.BatchNormalization(),
        keras.layers.LSTM(3),
        keras.layers.Dense(2, name="dense", kernel_regularizer="l1"),
        built=built,
    )
    names = add_l2(model, 0.5)
    model.build((None, 6, 4))
    assert names == ("conv", "lstm_cell") or len(names) == 2
    assert len(model.losses) == 3
    kernel = model.layers[0].kernel.numpy()
    assert float(model.losses[0]) == pytest.approx(0.5 * float((kernel**2).sum()), rel=1e-5)


@pytest.mark.tensorflow
def test_a_saved_model_keeps_its_penalties(tmp_path: Path) -> None:
    model = layers(keras.layers.Conv1D(3, 2), keras.layers.Flatten(), keras.layers.Dense(2))
    add_l2(model, 0.5)
    before = [float(loss) for loss in model.losses]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [float(loss) for loss in loaded.losses] == pytest.approx(before)
    assert len(before) == 2


@pytest.mark.tensorflow
def test_effect_counts_the_penalties(train: Callable[..., Driven]) -> None:
    driven = train(L2(strength=0.01))
    assert driven.effect.applied
    assert "2 kernels penalized with 0.01; model.losses has 2" in driven.effect.detail


@pytest.mark.tensorflow
def test_model_without_kernels_is_not_applied(train: Callable[..., Driven]) -> None:
    def model() -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization()])

    assert not train(L2(), model=model).effect.applied
