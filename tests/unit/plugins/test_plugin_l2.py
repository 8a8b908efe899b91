"""L2 penalties are part of the loss; an adaptive strength follows a trend, without a trace."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras
from support.plugin_drive import Driven
from tfopt_model.adaptive_l2 import AdaptiveL2, next_scale, trend
from tfopt_model.l2 import L2, add_l2, scale_penalties

from tfopt_core import Workload
from tfopt_core.errors import PluginError, PluginRefused
from tfopt_core.training.fit import train


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


# The strength of adaptive L2 follows a trend, through one variable and one trace


def small_workload(validation: bool = True, regularizer: str | None = None) -> Workload:
    x = np.random.default_rng(0).normal(size=(32, 6)).astype("float32")
    noise = np.random.default_rng(1).normal(size=(32, 1)).astype("float32")

    def build_model() -> Any:
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((6,)), dense(32, "relu", kernel_regularizer=regularizer), dense(1)]
        )

    held_out = (x[16:], noise[16:]) if validation else None
    return Workload(
        train=(x[:16], noise[:16]), validation=held_out, build_model=build_model, loss="mse",
        optimizer="adam", baseline="a small network that overfits",
    )  # fmt: skip


def test_trend_is_a_fraction_of_the_mean_for_each_epoch() -> None:
    assert trend([0.9, 1.0, 1.1]) == pytest.approx(0.1)
    assert trend([2.0, 2.0]) == 0.0


@pytest.mark.parametrize(("slope", "scale"), [(0.1, 2.0), (-0.1, 0.5), (0.005, 1.0), (-0.005, 1.0)])
def test_scale_rises_with_the_loss_and_falls_with_it(slope: float, scale: float) -> None:
    assert next_scale(1.0, slope, factor=2.0, flat=0.01, most=8.0) == scale


def test_scale_stays_within_its_bounds() -> None:
    assert next_scale(8.0, 1.0, factor=2.0, flat=0.0, most=8.0) == 8.0
    assert next_scale(0.125, -1.0, factor=2.0, flat=0.0, most=8.0) == 0.125


@pytest.mark.tensorflow
def test_training_reads_the_strength_without_another_trace(tmp_path: Path) -> None:
    plugin = AdaptiveL2(strength=1e-2, window=2, flat=0.0, factor=2.0)
    built = build_here(small_workload(), plugin, folder=tmp_path, epochs=6, batch_size=16)
    traces: list[int] = []
    step = built.model.train_step

    def train_step(data: Any) -> Any:
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


@pytest.mark.tensorflow
def test_strength_of_a_penalty_that_is_there_is_the_first_one(tmp_path: Path) -> None:
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


@pytest.mark.tensorflow
def test_saved_model_keeps_the_last_strength_and_loads_as_plain_keras(tmp_path: Path) -> None:
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


@pytest.mark.tensorflow
def test_second_fit_of_a_script_goes_on_with_the_variable_that_is_traced() -> None:
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


@pytest.mark.tensorflow
def test_without_validation_data_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginRefused, match=r"no validation data.*use l2"):
        build_here(small_workload(validation=False), AdaptiveL2(), folder=tmp_path)


@pytest.mark.tensorflow
def test_strength_that_never_changed_is_named(tmp_path: Path) -> None:
    plugin = AdaptiveL2(window=5)
    built, _ = train_here(small_workload(), L2(), plugin, folder=tmp_path, epochs=2)
    effect = plugin.report_effect(built.run, built.model)
    assert not effect.applied
    assert "never changed in 2 epochs: a trend is taken over 5" in effect.detail


@pytest.mark.tensorflow
def test_missing_metric_lists_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r'no metric "val_los"; the metrics are: .*val_loss'):
        train_here(small_workload(), AdaptiveL2(monitor="val_los"), folder=tmp_path)
