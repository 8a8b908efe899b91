"""Learning-rate schedules and stopping at a target."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras
from support.plugin_drive import Driven
from tfopt_training.lr_schedule import LrSchedule, own_rate, planned_steps
from tfopt_training.target_stop import TargetStop

from tfopt_core.errors import PluginError, PluginRefused
from tfopt_core.plugins import Control
from tfopt_core.testing import make_run


def test_steps_are_split_into_warm_up_and_decay() -> None:
    assert planned_steps(100, 3, 0.5) == (50, 250)


def test_unknown_steps_are_refused() -> None:
    with pytest.raises(PluginRefused, match="steps of an epoch are unknown"):
        planned_steps(None, 3, 0)


def test_warm_up_that_takes_everything_is_refused() -> None:
    with pytest.raises(PluginRefused, match="lower warmup_epochs"):
        planned_steps(100, 3, 3)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, {0: 1.0, 50: 0.5, 100: 0.0, 200: 0.0}),
        ({"final_fraction": 0.2}, {0: 1.0, 50: 0.6, 100: 0.2}),
        ({"warmup_epochs": 2.0}, {0: 0.0, 10: 0.5, 20: 1.0, 60: 0.5, 100: 0.0}),
        ({"schedule": "constant", "warmup_epochs": 2.0}, {0: 0.0, 10: 0.5, 20: 1.0, 90: 1.0}),
        (
            {"schedule": "cosine-restarts", "first_restart_epochs": 2.0},
            {0: 1.0, 10: 0.5, 20: 1.0, 40: 0.5, 60: 1.0},
        ),
        (
            {
                "schedule": "cosine-restarts", "first_restart_epochs": 2.0,
                "restart_multiplier": 1.0, "warmup_epochs": 1.0,
            },
            {0: 0.0, 5: 0.5, 10: 1.0, 20: 0.5, 30: 1.0, 50: 1.0},
        ),
    ],
)  # fmt: skip
def test_schedule_has_these_rates(settings: dict[str, Any], rates: dict[int, float]) -> None:
    schedule = LrSchedule(**settings).build(1.0, 10, 10)
    for step, rate in rates.items():
        assert float(schedule(step)) == pytest.approx(rate, abs=1e-5), step


@pytest.mark.tensorflow
def test_own_rate_is_read_from_name_function_and_instance() -> None:
    adam = keras.optimizers.Adam
    assert own_rate("sgd") == pytest.approx(0.01)
    assert own_rate(lambda: adam(0.3)) == pytest.approx(0.3)
    assert own_rate(adam(0.2)) == pytest.approx(0.2)
    assert own_rate(keras.optimizers.LossScaleOptimizer(adam(0.2))) == pytest.approx(0.2)
    with pytest.raises(PluginRefused, match=r"ExponentialDecay.*set peak"):
        own_rate(adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["ReduceLROnPlateau", "LearningRateScheduler"])
def test_callback_that_sets_the_rate_is_refused(train: Callable[..., Driven], name: str) -> None:
    callback = {
        "ReduceLROnPlateau": lambda: keras.callbacks.ReduceLROnPlateau(monitor="loss"),
        "LearningRateScheduler": lambda: keras.callbacks.LearningRateScheduler(lambda epoch: 0.1),
    }[name]()
    with pytest.raises(PluginRefused, match=f"{name} sets the learning rate too, .*take it out"):
        train(LrSchedule(), callbacks=(callback,))


@pytest.mark.tensorflow
def test_effect_reads_schedule_rate_and_steps_back(train: Callable[..., Driven]) -> None:
    effect = train(LrSchedule(final_fraction=0.1), optimizer="adam").effect
    assert effect.applied
    assert effect.detail == "CosineDecay, learning rate 0.0001 after 8 steps"


@pytest.mark.tensorflow
def test_own_constant_rate_is_not_applied(train: Callable[..., Driven]) -> None:
    assert not train(LrSchedule(schedule="constant")).effect.applied


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_saved_model_loads_without_tfopt_and_keeps_its_slots(train, tmp_path, monkeypatch):
    plugin = LrSchedule(
        schedule="cosine-restarts", first_restart_epochs=1.5, warmup_epochs=0.5, final_fraction=0.1
    )
    driven = train(plugin)
    before = [variable.numpy() for variable in driven.model.optimizer.variables]
    rate = float(driven.model.optimizer.learning_rate)
    model = driven.stack.unwrap(driven.model)
    after = [variable.numpy() for variable in model.optimizer.variables]
    assert float(model.optimizer.learning_rate) == rate
    assert len(after) == len(before) + 1
    for old, new in zip(before, [after[0], *after[2:]], strict=True):
        np.testing.assert_array_equal(old, new)
    model.save(tmp_path / "model.keras")
    # as where tfopt is not installed; nor does Keras know a class of tfopt by name
    known = keras.saving.get_custom_objects().values()
    assert not [one for one in known if one.__module__.startswith("tfopt")]
    for name in [name for name in sys.modules if name.startswith("tfopt")]:
        monkeypatch.setitem(sys.modules, name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = keras.models.load_model(tmp_path / "model.keras")
    assert (float(loaded.optimizer.learning_rate), int(loaded.optimizer.iterations)) == (rate, 8)
    loaded.optimizer.learning_rate = 0.5


@pytest.mark.tensorflow
def test_unwrapped_model_can_be_trained_on(train: Callable[..., Driven]) -> None:
    driven = train(LrSchedule(final_fraction=0.5))
    model = driven.stack.unwrap(driven.model)
    model.fit(np.zeros((4, 4)), np.zeros((4, 1)), verbose=0)
    assert int(model.optimizer.iterations) == 9


@pytest.mark.tensorflow
@pytest.mark.parametrize("patience", [1, 3])
def test_training_stops_after_so_many_epochs_at_the_target(train, patience):
    driven = train(TargetStop(metric="loss", at_most=1e9, patience=patience), epochs=5)
    assert driven.effect.applied
    assert f"stopped after epoch {patience} of 5" in driven.effect.detail
    assert int(driven.model.optimizer.iterations) == 4 * patience


@pytest.mark.tensorflow
def test_target_that_is_never_reached_names_the_best(train: Callable[..., Driven]) -> None:
    effect = train(TargetStop(metric="loss", at_most=1e-9)).effect
    assert not effect.applied
    assert "never reached; best was" in effect.detail


@pytest.mark.tensorflow
def test_target_in_the_last_epoch_saves_nothing(train: Callable[..., Driven]) -> None:
    effect = train(TargetStop(metric="loss", at_most=1e9, patience=2), epochs=2).effect
    assert not effect.applied
    assert "last epoch" in effect.detail


@pytest.mark.tensorflow
def test_missing_metric_lists_those_that_exist(train: Callable[..., Driven]) -> None:
    with pytest.raises(PluginError, match=r'no metric "val_loss"; the metrics are: loss'):
        train(TargetStop(metric="val_loss", at_most=1.0))


def test_an_epoch_without_a_validation_neither_counts_nor_breaks_a_streak() -> None:
    plugin = TargetStop(metric="val_loss", at_most=1.0, patience=2)
    run = make_run(epochs=9, datasets={"train": None, "validation": None})
    stops = []
    for epoch, loss in enumerate((None, 0.5, None, 0.5)):
        control, logs = Control(), {"loss": 2.0} if loss is None else {"val_loss": loss}
        plugin.on_epoch_end(run, epoch, logs, control)
        stops.append(control.stop_reason is not None)
    assert stops == [False, False, False, True]
    with pytest.raises(ValueError, match="there is no metric"):
        plugin.on_epoch_end(run, 4, {"val_mae": 0.5}, Control())


def test_nan_reaches_no_target() -> None:
    assert not TargetStop(metric="loss", at_most=1.0).reached(float("nan"))
    assert not TargetStop(metric="loss", at_least=1.0).reached(float("nan"))
