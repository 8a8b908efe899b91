"""Trainings whose layers are computed by fewer operations have the losses of plain Keras."""

from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, layers
from tfopt_model.fused_recurrent import FusedRecurrent, recurrent_layers
from tfopt_model.fused_transformer import FusedTransformer, fusible_layers

from tfopt_core import Workload

EXAMPLES, STEPS, BATCH_SIZE = 45, 8, 8
# Words of texts of unlike length, padded with zeros: right, left, and none of one text.
WORDS = np.random.default_rng(0).integers(1, 20, (EXAMPLES, STEPS))
WORDS[:20] *= np.arange(STEPS) < np.random.default_rng(1).integers(1, STEPS, (20, 1))
WORDS[20:40] *= np.arange(STEPS) >= np.random.default_rng(2).integers(1, STEPS, (20, 1))
WORDS[40] = 0
LABELS = (WORDS.sum(1) % 2).astype("float32")
# Losses after two epochs of Adam, relative: sums in another order.
WITHIN = 1e-5


def recurrent() -> Any:
    """An LSTM in both directions over masked texts, with dropout."""
    return keras.Sequential([
        keras.Input((STEPS,)),
        layers.Embedding(20, 6, mask_zero=True),
        layers.Bidirectional(layers.LSTM(4, dropout=0.2, name="first")),
        layers.Dense(1),
    ])  # fmt: skip


def attending() -> Any:
    """Two blocks over masked texts, one causal, and a dropout; one layer drops out its weights."""
    start = keras.Input((STEPS,))
    hidden = layers.Embedding(20, 8, mask_zero=True)(start)
    for number, dropout in enumerate((0.0, 0.2)):
        normal = layers.LayerNormalization()(hidden)
        attention = layers.MultiHeadAttention(2, 4, dropout=dropout, name=f"attention{number}")
        hidden = hidden + attention(normal, normal, use_causal_mask=True)
        hidden = layers.Dense(8, activation="gelu")(layers.Dropout(0.1)(hidden))
    return keras.Model(start, layers.Dense(1)(layers.GlobalAveragePooling1D()(hidden)))


def trained(folder: Any, build_model: Any, *plugins: Any) -> Any:
    workload = Workload(
        train=(WORDS, LABELS), build_model=build_model, optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )  # fmt: skip
    built, outcome = train_here(
        workload, *plugins, folder=folder, seed=5, epochs=2, batch_size=BATCH_SIZE
    )
    return built, outcome.history, [*built.stack.report_effects(built.run, built.model).values()]


@pytest.mark.parametrize(
    ("build_model", "plugin", "detail", "found_in", "replaced"),
    [
        (recurrent, FusedRecurrent(), "BlockLSTM computes 2 layers: ", recurrent_layers,
         "inner_loop"),
        (attending, FusedTransformer(),
         "computes 2 LayerNormalization, 1 MultiHeadAttention, 2 Dense; "
         'left alone: "attention1": it drops out attention weights', fusible_layers, "call"),
    ],
)  # fmt: skip
def test_losses_are_those_of_plain_keras_and_the_saved_model_is_the_users(
    tmp_path: Any, build_model: Any, plugin: Any, detail: str, found_in: Any, replaced: str
) -> None:
    _, plain, _ = trained(tmp_path / "plain", build_model)
    built, history, [effect] = trained(tmp_path / "fused", build_model, plugin)
    assert effect.applied
    assert effect.detail.startswith(detail)
    assert set(history) == set(plain)
    for name, values in plain.items():
        assert history[name] == pytest.approx(values, rel=WITHIN), name
    expected = np.asarray(built.model(WORDS))
    built.model.save(tmp_path / "within.keras")  # as a callback does
    built.stack.unwrap(built.model).save(tmp_path / "after.keras")
    for file in ("within.keras", "after.keras"):
        loaded = keras.saving.load_model(tmp_path / file)
        assert not any(replaced in vars(layer) for layer in found_in(loaded))
        np.testing.assert_allclose(np.asarray(loaded(WORDS)), expected, atol=1e-6)
