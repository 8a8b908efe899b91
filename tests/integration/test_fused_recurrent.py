"""Trainings whose LSTM and GRU layers are computed otherwise have the losses of plain Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from tfopt_model.fused_recurrent import FusedRecurrent, recurrent_layers

from tfopt_core import Workload

pytestmark = pytest.mark.tensorflow

EXAMPLES, STEPS, BATCH_SIZE, EPOCHS, SEED = 45, 8, 8, 2, 5
# Words of texts of unlike length, padded with zeros: right, left, and none of one text.
WORDS = np.random.default_rng(0).integers(1, 20, (EXAMPLES, STEPS))
WORDS[:20] *= np.arange(STEPS) < np.random.default_rng(1).integers(1, STEPS, (20, 1))
WORDS[20:40] *= np.arange(STEPS) >= np.random.default_rng(2).integers(1, STEPS, (20, 1))
WORDS[40] = 0
LABELS = (WORDS.sum(1) % 2).astype("float32")
# Losses after three epochs of Adam, relative: sums in another order.
WITHIN = 1e-5


def reader() -> Any:
    """An LSTM in both directions over masked texts, with dropout."""
    import keras
    from keras import layers

    return keras.Sequential([
        keras.Input((STEPS,)),
        layers.Embedding(20, 6, mask_zero=True),
        layers.Bidirectional(layers.LSTM(4, dropout=0.2, name="first")),
        layers.Dense(1),
    ])  # fmt: skip


def workload(build_model: Any) -> Workload:
    import keras

    return Workload(
        train=(WORDS, LABELS), build_model=build_model,
        optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )  # fmt: skip


def trained(folder: Any, *plugins: Any, build_model: Any = reader) -> Any:
    built, outcome = train_here(
        workload(build_model),
        *plugins,
        folder=folder,
        seed=SEED,
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )
    effects = built.stack.report_effects(built.run, built.model)
    return built, outcome.history, effects.get("FusedRecurrent")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def fused(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("fused"), FusedRecurrent())


def assert_like(plain: Any, fused: Any) -> None:
    _, history, effect = fused
    assert effect.applied
    assert effect.detail.startswith("BlockLSTM computes 2 layers: ")
    assert set(history) == set(plain[1])
    for name, values in plain[1].items():
        assert history[name] == pytest.approx(values, rel=WITHIN), name


def test_losses_are_those_of_plain_keras(plain: Any, fused: Any) -> None:
    assert_like(plain, fused)


def test_the_saved_model_is_the_users(tmp_path: Any, fused: Any) -> None:
    import keras

    built, _, _ = fused
    expected = np.asarray(built.model(WORDS))
    built.model.save(tmp_path / "within.keras")  # as a callback does
    built.stack.unwrap(built.model).save(tmp_path / "after.keras")
    for file in ("within.keras", "after.keras"):
        loaded = keras.saving.load_model(tmp_path / file)
        assert not any("inner_loop" in vars(layer) for layer in recurrent_layers(loaded))
        np.testing.assert_allclose(np.asarray(loaded(WORDS)), expected, atol=1e-6)
