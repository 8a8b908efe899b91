"""DropConnect drops weights in training, and infers by the moments of what was dropped."""

from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras
from tfopt_model.dropconnect import DropConnect, dropped, dropping_layers, mean_activation, moments

from tfopt_core.errors import PluginRefused
from tfopt_core.testing import make_run

ROWS = np.random.default_rng(0).normal(size=(8, 40)).astype("float32")


def dense_layer(activation: Any = "relu") -> Any:
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(6, activation, bias_initializer="normal")
    layer.build((None, ROWS.shape[1]))
    return layer


@pytest.mark.tensorflow
@pytest.mark.parametrize("masks", ["example", "batch"])
def test_weights_are_zero_or_scaled_so_that_their_mean_stays(masks: str) -> None:
    layer = dense_layer(None)
    ones = np.eye(40, dtype="float32")[:1].repeat(400, axis=0)  # each row reads one weight
    layer.bias.assign(np.zeros(6))
    drawn = np.asarray(dropped(layer, ones, 0.25, masks))
    weights = layer.kernel.numpy()[0]
    shares = drawn / weights
    assert np.allclose(shares[shares != 0], 1 / 0.75, rtol=1e-5)
    alike = bool((drawn == drawn[0]).all())
    assert alike == (masks == "batch")
    if masks == "example":
        assert (shares == 0).mean() == pytest.approx(0.25, abs=0.04)


@pytest.mark.tensorflow
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_inference_is_the_mean_of_what_training_computes(activation: str) -> None:
    layer = dense_layer(activation)
    draws = np.asarray(dropped(layer, np.tile(ROWS, (400, 1)), 0.5, "example"))
    draws = draws.reshape(400, *ROWS.shape[:1], 6)
    ours = np.asarray(mean_activation(layer.activation, *moments(layer, ROWS, 0.5)))
    noise = draws.std(0).mean() / np.sqrt(400)
    assert np.abs(ours - draws.mean(0)).mean() < 2 * noise
    weights_alone = np.asarray(layer(ROWS))
    assert np.abs(weights_alone - draws.mean(0)).mean() > 4 * noise


@pytest.mark.tensorflow
def test_sequences_share_the_weights_of_an_example() -> None:
    layer = dense_layer(None)
    twice = np.stack([ROWS, ROWS], axis=1)
    drawn = np.asarray(dropped(layer, twice, 0.5, "example"))
    assert drawn.shape == (8, 2, 6)
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], rtol=1e-5)


def model_with_dropout() -> Any:
    pictures = keras.Input((4,))
    hidden = keras.layers.Dense(8, "tanh", name="hidden")(pictures)
    return keras.Model(pictures, keras.layers.Dense(1, name="out")(hidden), name="mine")


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_saved_model_has_layers_of_keras_that_infer_the_same(train):
    driven = train(DropConnect(rate=0.4), model=model_with_dropout, optimizer="adam")
    assert driven.effect.applied, driven.effect.detail
    assert '"hidden": 40 weights' in driven.effect.detail
    assert '"out" makes the outputs' in driven.effect.detail
    ours = driven.model.predict(np.eye(4, dtype="float32"), verbose=0)
    draws = [np.asarray(driven.model(np.ones((1, 4)), training=True)) for _ in "ab"]
    assert np.abs(draws[0] - draws[1]).max() > 0
    plain = type(driven.model.get_layer("hidden")).call
    means = np.asarray(plain(driven.model.get_layer("hidden"), np.eye(4, dtype="float32")))
    saved = driven.stack.unwrap(driven.model)
    assert saved.name == "mine"
    np.testing.assert_allclose(
        saved.predict(np.eye(4, dtype="float32"), verbose=0), ours, atol=1e-6
    )
    assert {type(one).__module__.partition(".")[0] for one in saved.layers} == {"keras"}
    assert np.abs(means - saved.get_layer("hidden")(np.eye(4, dtype="float32"))).max() > 1e-3


@pytest.mark.tensorflow
def test_model_that_is_no_graph_is_saved_with_its_means_and_says_so() -> None:
    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(3, "relu", name="hidden")

        def call(self, inputs: Any) -> Any:
            return self.hidden(inputs)

    plugin, run, model = DropConnect(layers=("hid*",)), make_run(), Own()
    assert plugin.wrap_model(run, model) is model
    assert len(dropping_layers(model)) == 1
    with pytest.warns(UserWarning, match='means of its dropped weights: the class "Own"'):
        assert plugin.unwrap(model) is model
    assert dropping_layers(model) == []


@pytest.mark.tensorflow
def test_second_fit_of_a_script_keeps_what_the_first_has_traced() -> None:
    model, plugin = model_with_dropout(), DropConnect()
    plugin.wrap_model(make_run(), model)
    first = model.get_layer("hidden").call
    plugin.wrap_model(make_run(), model)
    assert model.get_layer("hidden").call is first
    DropConnect(rate=0.1).wrap_model(make_run(), model)
    assert model.get_layer("hidden").call is not first


@pytest.mark.tensorflow
def test_model_whose_only_dense_layer_makes_the_outputs_is_not_applied(train):
    def model() -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="out")])

    effect = train(DropConnect(), model=model).effect
    assert not effect.applied
    assert effect.detail == '"out" makes the outputs'


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("layers", "message"),
    [(("hiden",), 'no layer "hiden"'), (("norm",), '"norm" is a BatchNormalization'),
     (("soft",), "softmax.*mixes units")],
)  # fmt: skip
def test_wrong_layer_is_refused_by_name(train, layers, message):
    def model() -> Any:
        built = keras.layers
        return keras.Sequential(
            [keras.Input((4,)), built.BatchNormalization(name="norm"),
             built.Dense(3, "softmax", name="soft"), built.Dense(1)]
        )  # fmt: skip

    with pytest.raises(PluginRefused, match=message):
        train(DropConnect(layers=layers), model=model)
