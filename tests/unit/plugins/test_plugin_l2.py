"""Penalties and dropped weights: L2, an adaptive L2 that follows a trend, and DropConnect."""

from time import perf_counter_ns

import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras
from tfopt_model.adaptive_l2 import AdaptiveL2, next_scale, trend
from tfopt_model.dropconnect import DropConnect, dropped, dropping_layers, mean_activation, moments
from tfopt_model.l2 import L2, add_l2, scale_penalties

from tfopt_core import Workload
from tfopt_core.errors import PluginError, PluginRefused
from tfopt_core.testing import make_run
from tfopt_core.training.fit import train


def layers(*given, built=True):
    start = [keras.Input((6, 4))] if built else []
    return keras.Sequential([*start, *given])


@pytest.mark.parametrize("built", [True, False])
def test_penalties_are_losses_of_the_model(built):
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


def test_a_saved_model_keeps_its_penalties(tmp_path):
    model = layers(keras.layers.Conv1D(3, 2), keras.layers.Flatten(), keras.layers.Dense(2))
    add_l2(model, 0.5)
    before = [float(loss) for loss in model.losses]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [float(loss) for loss in loaded.losses] == pytest.approx(before)
    assert len(before) == 2


# The strength of adaptive L2 follows a trend, through one variable and one trace


def small_workload(validation=True, regularizer=None):
    x = np.random.default_rng(0).normal(size=(32, 6)).astype("float32")
    noise = np.random.default_rng(1).normal(size=(32, 1)).astype("float32")

    def build_model():
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((6,)), dense(32, "relu", kernel_regularizer=regularizer), dense(1)]
        )

    held_out = (x[16:], noise[16:]) if validation else None
    return Workload(
        train=(x[:16], noise[:16]), validation=held_out, build_model=build_model, loss="mse",
        optimizer="adam", baseline="a small network that overfits",
    )  # fmt: skip


def test_trend_is_a_fraction_of_the_mean_for_each_epoch():
    assert trend([0.9, 1.0, 1.1]) == pytest.approx(0.1)
    assert trend([2.0, 2.0]) == 0.0


@pytest.mark.parametrize(
    ("before", "slope", "scale"),
    [(1.0, 0.1, 2.0), (1.0, -0.1, 0.5), (1.0, 0.005, 1.0), (1.0, -0.005, 1.0),
     (8.0, 1.0, 8.0), (0.125, -1.0, 0.125)],
)  # fmt: skip
def test_scale_rises_with_the_loss_and_falls_with_it_within_its_bounds(before, slope, scale):
    assert next_scale(before, slope, factor=2.0, flat=0.01, most=8.0) == scale


def test_training_reads_the_strength_without_another_trace(tmp_path):
    plugin = AdaptiveL2(strength=1e-2, window=2, flat=0.0, factor=2.0)
    built = build_here(small_workload(), plugin, folder=tmp_path, epochs=6, batch_size=16)
    traces = []
    step = built.model.train_step

    def train_step(data):
        traces.append(len(built.run.state_of(plugin)["scales"]))
        return step(data)

    built.model.train_step = train_step
    history = train(built, perf_counter_ns(), lambda message: None).history
    scales = built.run.state_of(plugin)["scales"]
    assert len(set(scales)) > 2
    assert set(traces) == {1}, "traced after the first epoch"
    penalties = [a - b for a, b in zip(history["val_loss"], history["val_data_loss"], strict=True)]
    kernels = [layer.kernel.numpy() for layer in built.model.layers]
    # validated under the strength of the last epoch, before that of the next was set
    assert penalties[-1] == pytest.approx(
        1e-2 * scales[-2] * sum(float((kernel**2).sum()) for kernel in kernels), rel=1e-3
    )
    effect = plugin.report_effect(built.run, built.model)
    assert effect.applied
    assert "2 kernels; strength changed" in effect.detail


def test_strength_of_a_penalty_that_is_there_is_the_first_one(tmp_path):
    built = build_here(
        small_workload(regularizer="l1"), L2(strength=0.5), AdaptiveL2(strength=9.0),
        folder=tmp_path,
    )  # fmt: skip
    first, last = built.model.layers
    assert first.get_config()["kernel_regularizer"]["class_name"] == "L1"
    assert last.get_config()["kernel_regularizer"]["config"] == {"l2": 0.5}
    assert float(last.kernel.regularizer(last.kernel)) == pytest.approx(
        0.5 * float((last.kernel.numpy() ** 2).sum()), rel=1e-5
    )


def test_saved_model_keeps_the_last_strength_and_loads_as_plain_keras(tmp_path):
    plugin = AdaptiveL2(strength=1e-2, window=2, flat=0.0)
    built, _ = train_here(small_workload(), plugin, folder=tmp_path, epochs=4, batch_size=16)
    scale = built.run.state_of(plugin)["scales"][-1]
    losses = [float(loss) for loss in built.model.losses]
    model = built.stack.unwrap(built.model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    penalties = {type(layer.kernel_regularizer).__module__ for layer in loaded.layers}
    assert penalties == {"keras.src.regularizers.regularizers"}
    assert loaded.layers[0].kernel_regularizer.l2 == pytest.approx(1e-2 * scale)
    assert [float(loss) for loss in loaded.losses] == pytest.approx(losses, rel=1e-5)


def test_second_fit_of_a_script_goes_on_with_the_variable_that_is_traced():
    model = small_workload().build_model()
    first = scale_penalties(model.layers, 0.5)
    first.set_scale(4.0)
    second = scale_penalties(model.layers, 0.5)
    assert second.variable is first.variable
    assert second.scale() == 4.0
    kernel = model.layers[0].kernel
    assert float(kernel.regularizer(kernel)) == pytest.approx(
        2.0 * float((kernel.numpy() ** 2).sum()), rel=1e-5
    )


def test_without_validation_data_it_is_refused(tmp_path):
    with pytest.raises(PluginRefused, match=r"no validation data.*use l2"):
        build_here(small_workload(validation=False), AdaptiveL2(), folder=tmp_path)


def test_strength_that_never_changed_is_named(tmp_path):
    plugin = AdaptiveL2(window=5)
    built, _ = train_here(small_workload(), L2(), plugin, folder=tmp_path, epochs=2)
    effect = plugin.report_effect(built.run, built.model)
    assert not effect.applied
    assert "never changed in 2 epochs: a trend is taken over 5" in effect.detail


def test_missing_metric_lists_those_that_exist(tmp_path):
    with pytest.raises(PluginError, match=r'no metric "val_los"; the metrics are: .*val_loss'):
        train_here(small_workload(), AdaptiveL2(monitor="val_los"), folder=tmp_path)


ROWS = np.random.default_rng(0).normal(size=(8, 40)).astype("float32")


def dense_layer(activation="relu"):
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(6, activation, bias_initializer="normal")
    layer.build((None, ROWS.shape[1]))
    return layer


@pytest.mark.parametrize("masks", ["example", "batch"])
def test_weights_are_zero_or_scaled_so_that_their_mean_stays(masks):
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


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_inference_is_the_mean_of_what_training_computes(activation):
    layer = dense_layer(activation)
    draws = np.asarray(dropped(layer, np.tile(ROWS, (400, 1)), 0.5, "example"))
    draws = draws.reshape(400, *ROWS.shape[:1], 6)
    ours = np.asarray(mean_activation(layer.activation, *moments(layer, ROWS, 0.5)))
    noise = draws.std(0).mean() / np.sqrt(400)
    assert np.abs(ours - draws.mean(0)).mean() < 2 * noise
    weights_alone = np.asarray(layer(ROWS))
    assert np.abs(weights_alone - draws.mean(0)).mean() > 4 * noise


def test_sequences_share_the_weights_of_an_example():
    layer = dense_layer(None)
    twice = np.stack([ROWS, ROWS], axis=1)
    drawn = np.asarray(dropped(layer, twice, 0.5, "example"))
    assert drawn.shape == (8, 2, 6)
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], rtol=1e-5)


def model_with_dropout():
    pictures = keras.Input((4,))
    hidden = keras.layers.Dense(8, "tanh", name="hidden")(pictures)
    return keras.Model(pictures, keras.layers.Dense(1, name="out")(hidden), name="mine")


@pytest.mark.thorough
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


def test_model_that_is_no_graph_is_saved_with_its_means_and_says_so():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(3, "relu", name="hidden")

        def call(self, inputs):
            return self.hidden(inputs)

    plugin, run, model = DropConnect(layers=("hid*",)), make_run(), Own()
    assert plugin.wrap_model(run, model) is model
    assert len(dropping_layers(model)) == 1
    with pytest.warns(UserWarning, match='means of its dropped weights: the class "Own"'):
        assert plugin.unwrap(model) is model
    assert dropping_layers(model) == []


def test_second_fit_of_a_script_keeps_what_the_first_has_traced():
    model, plugin = model_with_dropout(), DropConnect()
    plugin.wrap_model(make_run(), model)
    first = model.get_layer("hidden").call
    plugin.wrap_model(make_run(), model)
    assert model.get_layer("hidden").call is first
    DropConnect(rate=0.1).wrap_model(make_run(), model)
    assert model.get_layer("hidden").call is not first


@pytest.mark.parametrize(
    ("layers", "message"),
    [(("hiden",), 'no layer "hiden"'), (("norm",), '"norm" is a BatchNormalization'),
     (("soft",), "softmax.*mixes units")],
)  # fmt: skip
def test_wrong_layer_is_refused_by_name(train, layers, message):
    def model():
        built = keras.layers
        return keras.Sequential(
            [keras.Input((4,)), built.BatchNormalization(name="norm"),
             built.Dense(3, "softmax", name="soft"), built.Dense(1)]
        )  # fmt: skip

    with pytest.raises(PluginRefused, match=message):
        train(DropConnect(layers=layers), model=model)
