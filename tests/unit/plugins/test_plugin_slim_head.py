"""A slimmer head has fewer parameters, and begins with what it can keep of the weights."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras
from support.plugin_drive import Driven
from tfopt_model.graph_rewrite import parameters
from tfopt_model.slim_head import SlimHead, with_slim_head


def convolutional(between: Any = None, last: Any = None) -> Any:
    layers = keras.layers
    pictures = keras.Input((8, 8, 3), name="pictures")
    hidden = layers.Conv2D(6, 3, name="conv")(pictures)
    hidden = layers.Flatten(name="flat")(hidden)
    for layer in between() if between else [layers.Dropout(0.2)]:
        hidden = layer(hidden)
    hidden = layers.Dense(32, "relu", name="dense")(hidden)
    outputs = layers.Dense(3, name="out")(hidden)
    return keras.Model(pictures, outputs, name="mine")


def slim_of(model: Any, **settings: Any) -> Any:
    made = with_slim_head(model, **settings)
    assert not isinstance(made, str), made
    return made[0]


@pytest.mark.tensorflow
def test_pooling_shares_the_other_layers_and_sums_the_kernel_over_the_places() -> None:
    model = convolutional()
    slim = slim_of(model)
    assert parameters(model)[0] - parameters(slim)[0] == (36 - 1) * 6 * 32
    assert slim.name == "mine"
    assert slim.inputs[0].name == "pictures"
    for name in ("conv", "dropout", "out"):
        assert any(layer is slim.get_layer(layer.name) for layer in model.layers), name
    kernel = model.get_layer("dense").kernel.numpy().reshape(36, 6, 32).sum(0)
    np.testing.assert_allclose(slim.get_layer("dense").kernel.numpy(), kernel, rtol=1e-5)
    even = np.ones((2, 8, 8, 3), "float32")  # a feature map that is the same everywhere
    np.testing.assert_allclose(
        slim.predict(even, verbose=0), model.predict(even, verbose=0), rtol=1e-4, atol=1e-6
    )


@pytest.mark.tensorflow
def test_rank_makes_the_best_product_of_two_kernels() -> None:
    model = convolutional()
    slim = slim_of(model, pool=False, rank=8)
    first, second = slim.get_layer("dense_reduced"), slim.get_layer("dense")
    assert first.kernel.shape == (216, 8)
    product = first.kernel.numpy() @ second.kernel.numpy()
    left, values, right = np.linalg.svd(model.get_layer("dense").kernel.numpy())
    best = (left[:, :8] * values[:8]) @ right[:8]
    np.testing.assert_allclose(product, best, atol=1e-5)
    assert [layer.name for layer in slim.layers][-1] == "out"
    assert slim.get_layer("out") is model.get_layer("out")  # 32 x 3 is smaller than rank 8


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_saved_model_loads_as_plain_keras(train: Callable[..., Driven], tmp_path: Path) -> None:
    def model() -> Any:
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((4,)), dense(64, "relu", name="wide"), dense(64), dense(1)]
        )

    driven = train(SlimHead(pool=False, rank=4), model=model)
    assert driven.effect.applied
    assert "4,545 -> 961 trainable parameters" in driven.effect.detail
    driven.model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = np.eye(4, dtype="float32")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), driven.model.predict(x, verbose=0))


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("settings", "message"),
    [({}, "no feature map .* dense layer only; rank is off"),
     ({"rank": 6}, r'rank 6 makes no dense layer .* smaller: "hidden" \(4 x 8\)')],
)  # fmt: skip
def test_head_that_cannot_be_slimmer_is_named(train, settings, message):
    effect = train(SlimHead(**settings)).effect
    assert not effect.applied
    assert re.search(message, effect.detail), effect.detail


@pytest.mark.tensorflow
def test_flattened_map_that_another_layer_reads_stays() -> None:
    def normalized() -> list[Any]:
        return [keras.layers.BatchNormalization()]

    assert "no feature map" in with_slim_head(convolutional(normalized))


@pytest.mark.tensorflow
def test_model_with_a_class_of_its_own_is_left_alone() -> None:
    class Mine(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    model = convolutional()
    own = Mine(model.inputs, model.outputs)
    assert 'the class "Mine"' in with_slim_head(own)
