"""What `control` asks for in `on_epoch_end` really happens."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from support.in_process import train_here

from tfopt_core import Control, Workload, hookimpl

pytestmark = pytest.mark.tensorflow

X = np.linspace(-1, 1, 24, dtype="float32").reshape(12, 2)


def workload(callbacks=tuple):
    import keras

    def model():
        return keras.Sequential(
            [
                keras.layers.Input((2,)),
                keras.layers.Dense(3, name="frozen"),
                keras.layers.Dense(1, name="head"),
            ]
        )

    return Workload(
        train=(X, X[:, :1]), validation=(X, X[:, :1]), build_model=model, optimizer="adam",
        loss="mse", callbacks=callbacks,
    )  # fmt: skip


def recorder():
    import keras

    class Records(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.calls = []

        def on_train_begin(self, logs=None):
            self.calls.append("begin")

        def on_train_end(self, logs=None):
            self.calls.append("end")

        def on_epoch_end(self, epoch, logs=None):
            self.calls.append(epoch)

    return Records()


@attrs.frozen(kw_only=True, eq=False)
class Freezes:
    """Freezes a layer after the first epoch, and keeps its weights after each."""

    retrace: bool
    seen: list = attrs.field(factory=list)

    @hookimpl
    def on_epoch_end(self, model, epoch, control: Control):
        layer = model.get_layer("frozen")
        if epoch == 0:
            layer.trainable = False
            if self.retrace:
                control.retrace()
        self.seen.append(layer.get_weights()[0].copy())


@attrs.frozen(kw_only=True, eq=False)
class Rebuilds:
    """Asks for new data after some epochs, and counts how often data are built."""

    after: tuple[int, ...]
    built: list = attrs.field(factory=list)

    @hookimpl(wrapper=True)
    def build_dataset(self, split):
        plan = yield
        self.built.append(split)
        return plan

    @hookimpl
    def on_epoch_end(self, epoch, control):
        if epoch in self.after:
            control.rebuild_data()


@attrs.frozen(kw_only=True, eq=False)
class Stops:
    """Stops after an epoch, for two reasons."""

    after: int

    @hookimpl
    def on_epoch_end(self, epoch, control):
        if epoch == self.after:
            control.stop("enough")
            control.stop("too much")


def test_retrace_freezes_a_layer_in_the_middle_of_a_training(tmp_path):
    plugin = Freezes(retrace=True)
    _, outcome = train_here(workload(), plugin, folder=tmp_path, epochs=4)
    after_first, *later = plugin.seen
    for weights in later:
        np.testing.assert_array_equal(weights, after_first)
    assert outcome.epochs == 4
    assert outcome.history["loss"][-1] < outcome.history["loss"][1]  # the head still learns
    assert sum(block.cold == "trace" for block in outcome.blocks) >= 2


def test_without_retrace_a_layer_that_is_set_untrainable_trains_on(tmp_path):
    plugin = Freezes(retrace=False)
    train_here(workload(), plugin, folder=tmp_path, epochs=3)
    assert not np.array_equal(plugin.seen[-1], plugin.seen[0])


def test_rebuild_data_builds_the_training_data_anew_and_the_user_sees_one_training(tmp_path):
    records, plugin = recorder(), Rebuilds(after=(0, 2))
    built, outcome = train_here(
        workload(lambda: [records]), plugin, folder=tmp_path, epochs=4, batch_size=4
    )
    assert plugin.built == ["train", "validation", "train", "train"]
    assert records.calls == ["begin", 0, 1, 2, 3, "end"]
    assert outcome.epochs == 4
    assert outcome.steps == int(built.model.optimizer.iterations) == 12
    assert len(outcome.history["val_loss"]) == 4
    assert outcome.stop_reason is None


def test_rebuild_data_after_the_last_epoch_builds_nothing(tmp_path):
    plugin = Rebuilds(after=(1,))
    _, outcome = train_here(workload(), plugin, folder=tmp_path, epochs=2)
    assert plugin.built == ["train", "validation"]
    assert outcome.epochs == 2


def test_stop_ends_the_training_after_that_epoch_with_the_first_reason(tmp_path):
    records = recorder()
    _, outcome = train_here(
        workload(lambda: [records]), Stops(after=1), folder=tmp_path, epochs=5
    )  # fmt: skip
    assert outcome.epochs == 2
    assert outcome.stop_reason == "enough"
    assert records.calls == ["begin", 0, 1, "end"]


def test_stop_wins_over_rebuild_data(tmp_path):
    records, rebuilds = recorder(), Rebuilds(after=(0,))
    _, outcome = train_here(
        workload(lambda: [records]), rebuilds, Stops(after=0), folder=tmp_path, epochs=3
    )
    assert rebuilds.built == ["train", "validation"]
    assert outcome.epochs == 1
    assert records.calls == ["begin", 0, "end"]


def test_early_stopping_of_the_workload_is_respected_across_rebuilt_data(tmp_path):
    import keras

    class StopsAfterThird(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 2:
                self.model.stop_training = True

    _, outcome = train_here(
        workload(lambda: [StopsAfterThird()]), Rebuilds(after=(0, 1, 2, 3)),
        folder=tmp_path, epochs=6,
    )  # fmt: skip
    assert outcome.epochs == 3
