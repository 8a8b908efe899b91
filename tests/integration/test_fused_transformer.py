"""Trainings whose attention, norms and gelu take fewer operations have plain Keras' losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, layers
from tfopt_model.fused_transformer import FusedTransformer, fusible_layers

from tfopt_core import Workload

pytestmark = pytest.mark.tensorflow

EXAMPLES, PLACES, BATCH_SIZE, EPOCHS, SEED = 45, 6, 8, 2, 5
# Words of texts, some of them padded with zeros on the right.
WORDS = np.random.default_rng(0).integers(1, 20, (EXAMPLES, PLACES))
WORDS[:20] *= np.arange(PLACES) < np.random.default_rng(1).integers(1, PLACES, (20, 1))
LABELS = (WORDS.sum(1) % 2).astype("float32")
# Losses after two epochs of Adam, relative: sums in another order.
WITHIN = 1e-5


def reader() -> Any:
    """Two blocks over masked texts, one causal, and a dropout; one layer drops out its weights."""
    start = keras.Input((PLACES,))
    hidden = layers.Embedding(20, 8, mask_zero=True)(start)
    for number, dropout in enumerate((0.0, 0.2)):
        normal = layers.LayerNormalization()(hidden)
        attention = layers.MultiHeadAttention(2, 4, dropout=dropout, name=f"attention{number}")
        hidden = hidden + attention(normal, normal, use_causal_mask=True)
        hidden = layers.Dense(8, activation="gelu")(layers.Dropout(0.1)(hidden))
    return keras.Model(start, layers.Dense(1)(layers.GlobalAveragePooling1D()(hidden)))


def workload() -> Workload:
    return Workload(
        train=(WORDS, LABELS), build_model=reader,
        optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )  # fmt: skip


def trained(folder: Any, *plugins: Any) -> Any:
    built, outcome = train_here(
        workload(), *plugins, folder=folder, seed=SEED, epochs=EPOCHS, batch_size=BATCH_SIZE
    )
    effects = built.stack.report_effects(built.run, built.model)
    return built, outcome.history, effects.get("FusedTransformer")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def fused(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("fused"), FusedTransformer())


def assert_like(plain: Any, fused: Any) -> None:
    _, history, effect = fused
    assert effect.applied
    for name, values in plain[1].items():
        assert history[name] == pytest.approx(values, rel=WITHIN), name


def test_losses_are_those_of_plain_keras(plain: Any, fused: Any) -> None:
    assert_like(plain, fused)
    assert fused[2].detail == (
        "computes 2 LayerNormalization, 1 MultiHeadAttention, 2 Dense; "
        'left alone: "attention1": it drops out attention weights'
    )


def test_the_saved_model_is_the_users(tmp_path: Any, fused: Any) -> None:
    built, _, _ = fused
    expected = np.asarray(built.model(WORDS))
    built.model.save(tmp_path / "within.keras")  # as a callback does
    built.stack.unwrap(built.model).save(tmp_path / "after.keras")
    for file in ("within.keras", "after.keras"):
        loaded = keras.saving.load_model(tmp_path / file)
        assert not any("call" in vars(layer) for layer in fusible_layers(loaded))
        np.testing.assert_allclose(np.asarray(loaded(WORDS)), expected, atol=1e-6)
