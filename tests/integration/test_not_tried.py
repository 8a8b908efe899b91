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
    prepared = prepare(task, print, lambda job: workload(with_python_function))
    assert prepared.resolved == {"chunked": {"steps": 4, "xla": False}}
    [warning] = prepared.search_notes
    assert warning in prepared.warnings
    assert warning.startswith(
        'the settings of plugin "chunked" were chosen without what could not be timed: '
        "chunked with steps = 4, xla = True: raised InvalidArgumentError: "
    )
