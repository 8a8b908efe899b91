"""What could not be tried is named with its reason, and what is known by then stands."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import build_here
from support.lazy_modules import keras, tf
from tfopt_runtime.chunked import Chunked

from tfopt_core import DataPlan, Workload
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.trials.compared_loops import compare_loops
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import PrepareTask

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(3).random((200, 6), "float32")
BATCH_SIZE = 4


def small_model() -> Any:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])


def with_python_function() -> Any:
    """XLA has no kernel for a Python function, so it cannot compile a step of this model."""

    class Doubled(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            doubled = tf.numpy_function(lambda values: 2 * values, [inputs], tf.float32)
            return tf.ensure_shape(doubled, inputs.shape)

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape

    return keras.Sequential([keras.Input((6,)), Doubled(), keras.layers.Dense(1)])


def workload(build_model: Any) -> Workload:
    return Workload(train=DataPlan.from_arrays(X, X[:, :1]), validation=None, optimizer="sgd",
                    build_model=build_model, loss="mse", batch_size=BATCH_SIZE)  # fmt: skip


def test_a_loop_that_cannot_train_the_model_is_left_out_of_the_settings_with_its_reason(tmp_path):
    built = build_here(workload(small_model), folder=tmp_path, batch_size=BATCH_SIZE)
    stack = (StackedPlugin("chunked", Chunked(steps=4)),)
    task = PrepareTask(function="", look="", job=attrs.evolve(built.job, plugins=stack))
    prepared = prepare(task, lambda job: workload(with_python_function))
    assert prepared.resolved == {"chunked": {"steps": 4, "xla": False}}
    [warning] = prepared.search_notes
    assert warning in prepared.warnings
    assert warning.startswith(
        'the settings of plugin "chunked" were chosen without a loop that could not be timed: '
        "4 steps a call, compiled whole by XLA: its first call raised InvalidArgumentError: "
    )


@attrs.frozen
class FailingCall:
    """A script's call of `fit` whose own callback raises after so many batches."""

    model: Any
    batches: int
    number: int = 1

    def make(self, callbacks: Any, replaced: Any, **arguments: Any) -> Any:
        call, seen = self, []

        class Raises(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Any = None) -> None:
                if not call.batches:
                    raise ValueError("the disk is full")

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                seen.append(epoch)
                if len(seen) * len(X) // BATCH_SIZE >= call.batches:
                    raise ValueError("the disk is full")

        arguments.pop("validation_freq")
        return self.model.fit(X, X[:, :1], batch_size=BATCH_SIZE, shuffle=False,
                              callbacks=[Raises(), *callbacks], **arguments)  # fmt: skip


@pytest.mark.parametrize("batches", [0, 200])
def test_a_fit_that_fails_while_loops_are_compared_is_named(tmp_path, batches, monkeypatch):
    for limit in ("SECONDS", "AT_MOST"):  # the fit fails before, however busy the machine is
        monkeypatch.setattr(f"tfopt_core.trials.compared_loops.{limit}", 600.0)
    built = build_here(workload(small_model), folder=tmp_path, batch_size=BATCH_SIZE)
    fields = {field.name: getattr(built.workload, field.name) for field in attrs.fields(Workload)}
    call = FailingCall(built.model, batches)
    of_script = FitWorkload(**fields, call=call, data=None, compiled=None, session=None)
    compared = compare_loops(attrs.evolve(built, workload=of_script), lambda phase: None)
    assert compared is not None
    assert not compared.complete
    assert compared.adapted.left_out[-1] == (
        "the fit in which loops were compared ended early: it raised ValueError: the disk is full"
    )
    assert bool(compared.adapted.steps) == bool(batches)
    assert compared.adapted.kept == "1 step a call"
