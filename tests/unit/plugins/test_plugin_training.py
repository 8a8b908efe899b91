"""Batches that fit, learning-rate schedules, and stopping at a target."""

import sys
import warnings

import numpy as np
import pytest
from support.lazy_modules import keras
from support.plugin_drive import FakeProbe, machine_with
from tfopt_training.fit_batch import FitBatch, largest_batch
from tfopt_training.lr_schedule import LrSchedule, own_rate, planned_steps
from tfopt_training.target_stop import TargetStop

from tfopt_core import DataPlan
from tfopt_core.errors import PluginRefused
from tfopt_core.plugins import Control
from tfopt_core.testing import make_run


def test_steps_are_split_into_warm_up_and_decay():
    assert planned_steps(100, 3, 0.5) == (50, 250)


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
def test_schedule_has_these_rates(settings, rates):
    schedule = LrSchedule(**settings).build(1.0, 10, 10)
    for step, rate in rates.items():
        assert float(schedule(step)) == pytest.approx(rate, abs=1e-5), step


def test_own_rate_is_read_from_name_function_and_instance():
    adam = keras.optimizers.Adam
    assert own_rate("sgd") == pytest.approx(0.01)
    assert own_rate(lambda: adam(0.3)) == pytest.approx(0.3)
    assert own_rate(adam(0.2)) == pytest.approx(0.2)
    assert own_rate(keras.optimizers.LossScaleOptimizer(adam(0.2))) == pytest.approx(0.2)
    with pytest.raises(PluginRefused, match=r"ExponentialDecay.*set peak"):
        own_rate(adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)))


@pytest.mark.parametrize("name", ["ReduceLROnPlateau", "LearningRateScheduler"])
def test_callback_that_sets_the_rate_is_refused(train, name):
    callback = {
        "ReduceLROnPlateau": lambda: keras.callbacks.ReduceLROnPlateau(monitor="loss"),
        "LearningRateScheduler": lambda: keras.callbacks.LearningRateScheduler(lambda epoch: 0.1),
    }[name]()
    with pytest.raises(PluginRefused, match=f"{name} sets the learning rate too, .*take it out"):
        train(LrSchedule(), callbacks=(callback,))


@pytest.mark.thorough
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


def test_unwrapped_model_can_be_trained_on(train):
    driven = train(LrSchedule(final_fraction=0.5))
    model = driven.stack.unwrap(driven.model)
    model.fit(np.zeros((4, 4)), np.zeros((4, 1)), verbose=0)
    assert int(model.optimizer.iterations) == 9


@pytest.mark.parametrize("patience", [1, 3])
def test_training_stops_after_so_many_epochs_at_the_target(train, patience):
    driven = train(TargetStop(metric="loss", at_most=1e9, patience=patience), epochs=5)
    assert driven.effect.applied
    assert f"stopped after epoch {patience} of 5" in driven.effect.detail
    assert int(driven.model.optimizer.iterations) == 4 * patience


def test_an_epoch_without_a_validation_neither_counts_nor_breaks_a_streak():
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


def test_nan_reaches_no_target():
    assert not TargetStop(metric="loss", at_most=1.0).reached(float("nan"))
    assert not TargetStop(metric="loss", at_least=1.0).reached(float("nan"))


MIB = 2**20
BEGIN = 32


def linear(constant, each, there=1e9):
    """A process of so many MiB, and so many more for each example; none is there beyond that."""

    def peak(size):
        taken = constant + each * size
        return None if taken > there else int(taken * MIB)

    return peak


@pytest.mark.parametrize(
    ("peak", "most", "least", "largest"),
    [
        (linear(600, 2), 4096, 640, 700),  # 2,000 MiB come to 700 examples
        (linear(600, 2), 100, 100, 100),
        (linear(600, 2), 16, 16, 16),
        (linear(600, 0), 4096, 4096, 4096),
        (linear(600, 100), 4096, 12, 14),  # less than the workload's own batch
        (linear(600, 2, there=1000), 4096, 160, 200),  # memory runs out before the limit
        (lambda size: (600 + size**2 // 100) * MIB, 4096, 288, 374),  # grows ever faster
    ],
)
def test_the_largest_size_that_was_seen_to_fit_is_found(peak, most, least, largest):
    tried = {}

    def noting(size):
        tried[size] = peak(size)
        return tried[size]

    size = largest_batch(noting, BEGIN, 2000 * MIB, most)
    assert least <= size <= largest
    assert (tried[size] or 0) <= 2000 * MIB
    assert len(tried) <= 8


def test_noise_between_small_batches_leads_to_no_great_jump():
    tried = []

    def peak(size):
        tried.append(size)
        return (600 + (10 if size == BEGIN else 0) + size) * MIB

    largest_batch(peak, BEGIN, 2000 * MIB, 2**20)
    assert all(later <= 8 * max(tried[: i + 1]) for i, later in enumerate(tried[1:]))


def probe(**changes):
    plan = DataPlan.from_arrays(np.zeros(1000)).batch(8)
    return FakeProbe(**{"plans": {"train": plan}, **changes})


def test_auto_is_resolved_the_tries_are_noted_and_a_number_is_left_as_it_is():
    asked = probe()
    resolved = FitBatch(margin=0.5).resolve(asked)
    assert resolved.batch_size == 40  # 0.1 of the memory, and 0.01 for each
    assert asked.notes == ["batches tried within 512 MiB: 8 (184 MiB), 16 (266 MiB), 40 (512 MiB)"]
    asked = probe()
    assert FitBatch(batch_size=96).resolve(asked).batch_size == 96
    assert asked.asked == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: planned_steps(None, 3, 0), "steps of an epoch are unknown"),
        (lambda: planned_steps(100, 3, 3), "lower warmup_epochs"),
        (lambda: largest_batch(linear(600, 2, there=500), BEGIN, 2000 * MIB, 4096), "lower margin"),
        (lambda: FitBatch().resolve(probe(machine=machine_with((8, 0)))),
         "set batch_size to a number"),
        (lambda: FitBatch().resolve(probe(steps_per_epoch=None)), "set batch_size"),
        (lambda: FitBatch().resolve(probe(plans={"train": DataPlan.from_arrays(np.zeros(4))})),
         "does not see it"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_or_searched_is_refused_with_the_mend(asked, said):
    with pytest.raises(PluginRefused, match=said):
        asked()


def test_batches_and_learning_rate_are_those_of_the_rule(train):
    driven = train(FitBatch(batch_size=64, learning_rate="sqrt"))
    assert driven.model.optimizer.iterations == 2  # one step in each of two epochs
    assert float(driven.model.optimizer.learning_rate) == pytest.approx(0.02)
