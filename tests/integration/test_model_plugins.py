"""Trainings with plugins that change the model equal plain Keras on the model made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras
from tfopt_model.adaptive_l2 import AdaptiveL2, next_scale, trend
from tfopt_model.dropconnect import DropConnect
from tfopt_model.graph_rewrite import parameters
from tfopt_model.slim_head import SlimHead

from tfopt_core import Workload

pytestmark = pytest.mark.tensorflow

PICTURES = np.random.default_rng(0).random((48, 8, 8, 3)).astype("float32")
TARGETS = PICTURES.mean((1, 2, 3))[:, None] * 4 + np.random.default_rng(1).normal(size=(48, 1))
TRAIN, HELD_OUT = slice(0, 32), slice(32, 48)
EPOCHS, BATCH_SIZE = 4, 8


def network(pooled: bool = False, activation: str = "relu") -> Any:
    layers = keras.layers
    flat = layers.GlobalAveragePooling2D() if pooled else layers.Flatten()
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="relu", name="conv"),
            flat,
            layers.Dense(6, activation, name="dense"),
            layers.Dense(1, name="out"),
        ]
    )


def workload(validation: bool) -> Workload:
    return Workload(
        train=(PICTURES[TRAIN], TARGETS[TRAIN]),
        validation=(PICTURES[HELD_OUT], TARGETS[HELD_OUT]) if validation else None,
        build_model=network, optimizer="sgd", loss="mse", shuffle=False, baseline="a small CNN",
    )  # fmt: skip


def trained(folder: Any, *plugins: Any, validation: bool = True) -> tuple[Any, Any, Any]:
    """The built training, its history, and the weights before it by layer."""
    options = {"folder": folder, "epochs": EPOCHS, "batch_size": BATCH_SIZE}
    before = build_here(workload(validation), *plugins, **options).model
    weights = {layer.name: layer.get_weights() for layer in before.layers}
    built, outcome = train_here(workload(validation), *plugins, **options)
    return built, outcome.history, weights


def fitted(model: Any, epochs: int = EPOCHS) -> Any:
    """The history of plain Keras, which traces nothing, on the same data in the same order."""
    model.compile("sgd", "mse", run_eagerly=True)
    return model.fit(
        PICTURES[TRAIN], TARGETS[TRAIN], batch_size=BATCH_SIZE, epochs=epochs, shuffle=False,
        validation_data=(PICTURES[HELD_OUT], TARGETS[HELD_OUT]), verbose=0,
    ).history  # fmt: skip


def test_slim_head_trains_as_the_pooled_model_made_by_hand(tmp_path):
    built, history, weights = trained(tmp_path, SlimHead())
    by_hand = network(pooled=True)
    for layer in by_hand.layers:
        layer.set_weights(weights.get(layer.name, []))
    plain = fitted(by_hand)
    assert history["loss"] == pytest.approx(plain["loss"], rel=1e-5)
    assert history["val_loss"] == pytest.approx(plain["val_loss"], rel=1e-5)
    assert parameters(built.model) == parameters(by_hand)


def test_adaptive_l2_trains_as_one_recompiled_with_each_new_strength(tmp_path):
    plugin = AdaptiveL2(strength=0.02, window=2, factor=2.0, flat=0.0)
    _, history, weights = trained(tmp_path, plugin)
    model = network()
    for layer in model.layers:
        layer.set_weights(weights.get(layer.name, []))
    scale, losses, seen = 1.0, [], []
    for _ in range(EPOCHS):
        kernels = [layer.kernel for layer in model.layers if hasattr(layer, "kernel")]
        for kernel in kernels:
            kernel.regularizer = keras.regularizers.L2(0.02 * scale)
        plain = fitted(model, epochs=1)  # SGD keeps nothing from epoch to epoch
        losses.append(plain["loss"][0])
        penalty = 0.02 * scale * sum(float((kernel.numpy() ** 2).sum()) for kernel in kernels)
        seen.append(plain["val_loss"][0] - penalty)
        if len(seen) > 1:
            scale = next_scale(scale, trend(seen[-2:]), factor=2.0, flat=0.0, most=100.0)
    assert scale != 1.0
    assert history["loss"] == pytest.approx(losses, rel=1e-4)


def test_dropconnect_that_hardly_drops_trains_as_plain_keras(tmp_path):
    built, history, weights = trained(tmp_path, DropConnect(rate=1e-9), validation=False)
    model = network()
    for layer in model.layers:
        layer.set_weights(weights.get(layer.name, []))
    assert history["loss"] == pytest.approx(fitted(model)["loss"], rel=1e-4)
    effects = built.stack.report_effects(built.run, built.model)
    assert effects["DropConnect"].applied


def test_dropconnect_draws_other_masks_in_each_step_and_infers_the_same_each_time(tmp_path):
    built, history, _ = trained(tmp_path, DropConnect(rate=0.5), validation=False)
    _, repeated, _ = trained(tmp_path, DropConnect(rate=0.5), validation=False)
    assert history["loss"] == pytest.approx(repeated["loss"]), "the seed of the run decides"
    first, second = (np.asarray(built.model(PICTURES)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    draws = [np.asarray(built.model(PICTURES, training=True)) for _ in range(2)]
    assert np.abs(draws[0] - draws[1]).max() > 1e-3
