"""Segments that are computed again: the training is that of plain Keras, in less memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, layers
from support.real_process import python
from tfopt_model.rematerialize import Rematerialize
from tfopt_model.segments import pieces_of

from tfopt_core import Workload
from tfopt_core.testing import make_run

PICTURES = np.random.default_rng(0).random((16, 4, 4, 3), "float32")
LABELS = np.random.default_rng(1).integers(0, 3, 16).astype("int32")


def residual() -> Any:
    pictures = keras.Input((4, 4, 3))
    hidden = layers.Dense(4)(pictures)
    for _ in range(2):
        inner = layers.Dense(8, activation="gelu", kernel_regularizer="l2")(hidden)
        hidden = layers.Add()([hidden, layers.Dense(4)(inner)])
    return keras.Model(pictures, layers.Dense(3)(layers.GlobalAveragePooling2D()(hidden)))


def loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def test_the_training_is_that_of_plain_keras(tmp_path: Path) -> None:
    # (beside other plugins and with dropout, test_drawn_fits.py compares)
    keras.utils.set_random_seed(7)
    plain = residual()
    plain.compile("adam", loss())
    fitted = plain.fit(PICTURES, LABELS, batch_size=8, epochs=2, shuffle=False, verbose=0)
    workload = Workload(train=(PICTURES, LABELS), build_model=residual, loss=loss(), shuffle=False)
    built, outcome = train_here(workload, Rematerialize(), folder=tmp_path, batch_size=8)
    assert outcome.history["loss"] == pytest.approx(fitted.history["loss"], rel=1e-6)
    for ours, theirs in zip(built.model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    effect = built.stack.report_effects(built.run, built.model)["Rematerialize"]
    assert effect.applied, effect.detail
    model = built.stack.unwrap(built.model)
    assert type(model) is type(plain)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(PICTURES, verbose=0), model.predict(PICTURES, verbose=0)
    )


def test_without_rounding_the_bits_are_those_of_plain_keras(tmp_path: Path) -> None:
    rows, targets = PICTURES.reshape(-1, 6)[:40], PICTURES.reshape(-1)[:40]

    def network() -> Any:
        dense = [layers.Dense(5, activation=name) for name in ("gelu", "tanh", "tanh")]
        return keras.Sequential([keras.Input((6,)), *dense, layers.Dense(1)])

    keras.utils.set_random_seed(7)
    plain = network()
    plain.compile("sgd", "mse")
    plain.fit(rows, targets, batch_size=8, epochs=20, shuffle=False, verbose=0)
    workload = Workload(
        train=(rows, targets), build_model=network, optimizer="sgd", loss="mse", shuffle=False
    )  # fmt: skip
    plugin = Rematerialize(rounding=False)
    built, _ = train_here(workload, plugin, folder=tmp_path, batch_size=8, epochs=20)
    assert built.stack.report_effects(built.run, built.model)["Rematerialize"].applied
    for ours, theirs in zip(built.model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.thorough
def test_a_later_fit_of_a_script_takes_the_trace_of_the_first() -> None:
    model = residual()
    plain = type(model)
    plugin = Rematerialize()
    model.compile("sgd", loss())
    for _ in range(2):
        run = make_run()
        plugin.wrap_model(run, model)
        model.fit(PICTURES, LABELS, verbose=0)
        assert plugin.report_effect(run, model).applied
    assert type(plugin.unwrap(model)) is plain


def layered() -> Any:
    class Layered(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = residual()

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs)

    return Layered()


def masked() -> Any:
    return keras.Sequential(
        [
            keras.Input((4, 4, 3)),
            keras.layers.Reshape((4, 12)),
            keras.layers.Masking(name="mask"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3),
        ]
    )


def normalized() -> Any:
    blocks = [layers.Dense(4), layers.BatchNormalization(name="norm"), layers.ReLU()]
    return keras.Sequential([keras.Input((4, 4, 3)), *blocks, layers.Flatten(), layers.Dense(3)])


@pytest.mark.parametrize(
    ("build_model", "reason"),
    [
        (layered, 'the layers of "Layered" are no graph'),
        (masked, 'the layer "mask" makes a mask'),
        (normalized, '"norm"'),
        (residual, "GELU would be rounded otherwise"),
    ],
)
def test_what_cannot_be_cut_is_left_with_the_reason(tmp_path, build_model, reason):
    found = pieces_of(build_model(), rounding=False)
    text = found if isinstance(found, str) else " ".join(piece.why_once for piece in found)
    assert reason in text


# In a process of its own, whose peak memory is that of one training.
PROGRAM = """
import sys
import keras, numpy as np
from keras import layers
from tfopt_core.workers.telemetry import peak_rss_bytes
from tfopt_model.segments import cheapest, pieces_of, with_segments

hidden = pictures = keras.Input((64, 64, 3))
hidden = layers.Conv2D(16, 3, padding="same")(hidden)
for _ in range(6):
    inner = layers.Activation("gelu")(layers.LayerNormalization()(hidden))
    hidden = layers.Add()([hidden, layers.Conv2D(16, 3, padding="same")(inner)])
model = keras.Model(pictures, layers.Dense(3)(layers.GlobalAveragePooling2D()(hidden)))
if sys.argv[1] == "again":
    with_segments(model, cheapest(pieces_of(model), None))
model.compile("sgd", "mse")
model.fit(np.ones((64, 64, 64, 3)), np.ones((64, 3)), batch_size=64, verbose=0)
print(peak_rss_bytes())
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_a_step_takes_less_memory(tmp_path: Path) -> None:
    def peak(how: str) -> int:
        done = python("-c", PROGRAM, how, cwd=tmp_path)
        assert done.code == 0, done.err
        return int(done.out.split()[-1])

    assert peak("again") < 0.9 * peak("kept")
