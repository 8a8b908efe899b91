"""The order of a run's hook calls, and of the callbacks of a fit."""

from time import perf_counter_ns
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core import Workload
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import Control, Effect, Plugin, hookimpl
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.build import build
from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.fit import train
from tfopt_core.training.fit_monitor import FitMonitor
from tfopt_core.training.job import Job

pytestmark = pytest.mark.tensorflow

CALLS: list[str] = []


@attrs.frozen(kw_only=True, eq=False)
class Writes(Plugin):
    """Writes down each call."""

    name: str

    def _note(self, hook, *details):
        CALLS.append(" ".join([self.name, hook, *map(str, details)]))

    @hookimpl
    def configure_runtime(self, machine, recipe, options):
        self._note("configure_runtime", recipe.name)
        return options

    @hookimpl
    def configure_precision(self, run, policy):
        self._note("configure_precision", run.epochs)
        return policy

    @hookimpl
    def build_dataset(self, run, split, plan):
        self._note("build_dataset", split, run.replicas)
        return plan

    @hookimpl
    def wrap_model(self, run, model):
        self._note("wrap_model")
        return model

    @hookimpl
    def configure_training(self, run, model, options):
        self._note("configure_training", type(model).__name__, run.steps_per_epoch)
        return options

    @hookimpl
    def on_epoch_end(self, epoch, logs, control):
        assert isinstance(control, Control)
        self._note("on_epoch_end", epoch, *sorted(logs))

    @hookimpl
    def report_effect(self, changes):
        self._note("report_effect", len(changes))
        return Effect.applied_as("noted")


class Owns(Writes):
    @hookimpl
    def build_strategy(self, run):
        self._note("build_strategy")
        return tf.distribute.get_strategy()


def test_the_whole_order_of_calls(tmp_path):
    x = np.arange(20, dtype="float32").reshape(10, 2)
    workload = Workload(
        train=(x, x[:, 0]),
        validation=(x, x[:, 0]),
        build_model=lambda: keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)]),
        loss="mse",
    )
    plugins = (StackedPlugin("a", Writes(name="a")), StackedPlugin("b", Owns(name="b")))
    recipe = Recipe(name="order", workload=WorkloadSpec(use="order", epochs=2, batch_size=4))
    machine = make_machine()
    CALLS.clear()
    in_parent = Stack(plugins)
    in_parent.configure_runtime(machine, recipe)
    job = Job(
        recipe=recipe,
        plugins=plugins,
        variant="full",
        seed=1,
        machine=machine,
        folder=tmp_path,
        runtime_changes=in_parent.all_changes,
    )
    built = build(job, workload)
    train(built, perf_counter_ns(), lambda message: None)
    built.stack.report_effects(built.run, built.model)

    both = ["a", "b"]
    metrics = "loss val_data_loss val_loss"
    assert [
        *(f"{name} configure_runtime order" for name in both),
        *(f"{name} configure_precision 2" for name in both),
        "b build_strategy",
        *(f"{name} build_dataset train 1" for name in both),
        *(f"{name} build_dataset validation 1" for name in both),
        *(f"{name} wrap_model" for name in both),
        *(f"{name} configure_training Sequential 3" for name in both),
        *(f"{name} on_epoch_end 0 {metrics}" for name in both),
        *(f"{name} on_epoch_end 1 {metrics}" for name in both),
        "a report_effect 6",
        "b report_effect 7",
    ] == CALLS


# The order of the callbacks of a fit: tfopt's own stand around the user's


def test_steps_end_before_the_user_s_callbacks_and_the_last_sees_what_all_have_done():
    calls = []

    def noting(name, **more):
        return SimpleNamespace(on_epoch_end=lambda epoch, logs=None: calls.append(name), **more)

    clock = noting("clock", end_steps=lambda: calls.append("steps end"))
    monitor = noting("monitor", clock=clock, counter=noting("counts"), batches=None)
    users = [keras_callback(noting("first")), keras_callback(noting("second"))]
    for callback in FitMonitor.callbacks(monitor, users, noting("checkpoints")):
        callback.on_epoch_end(0)
    assert calls == ["steps end", "counts", "first", "second", "clock", "monitor", "checkpoints"]
