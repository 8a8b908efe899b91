"""How long a training will take, and what could not be tried for it, with the reason."""

from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.small_workloads import line
from tfopt_data.autotune import Autotune
from tfopt_data.cache import Cache
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident

from tfopt_core import DataPlan
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.trials.dry_build import estimates, prepare, without_stack
from tfopt_core.trials.epoch_ends import waiting_seconds
from tfopt_core.trials.step_timing import time_steps
from tfopt_core.workers.task import PrepareTask

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")


def estimate_of(train, folder, batch_size=None):
    built = build_here(line(train=train), folder=folder, epochs=3, batch_size=batch_size)
    return estimates(built.workload, without_stack(built.job))[0]


def unknown_length():
    """TensorFlow cannot tell how many elements pass a filter."""
    data = tf.data.Dataset.from_tensor_slices((X, X[:, :1]))
    return data.filter(lambda x, y: tf.reduce_all(x > -1e9)).batch(8)


def test_steps_of_data_of_unknown_length_are_counted_by_reading_them(tmp_path):
    found = estimate_of(unknown_length(), tmp_path)
    assert found is not None
    assert found.steps == 3 * 5
    assert found.seconds > found.steps * found.step_seconds > 0


def test_steps_are_counted_before_some_are_timed_which_use_the_data_up(tmp_path):
    left = [(X[:8], X[:8, :1])] * 40

    def batches():
        yield left[0]
        while len(left) > 1:
            yield left.pop()

    signature = tuple(tf.TensorSpec((8, width)) for width in (3, 1))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature).unbatch().batch(8)
    found = estimate_of(data, tmp_path)
    assert found.steps == 3 * 40


def test_a_generator_is_not_used_up_to_count_it(tmp_path):
    def examples():
        yield from zip(X, X[:, :1], strict=True)

    assert estimate_of(DataPlan.from_generator(examples), tmp_path, batch_size=4) is None


def test_data_that_take_long_to_read_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_core.trials.dry_build.COUNT_SECONDS", 0.0)
    assert estimate_of(unknown_length(), tmp_path) is None


def test_the_waits_at_the_ends_of_epochs_count_unless_the_stack_takes_them_away(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tfopt_core.trials.epoch_ends.share_that_waits", lambda: 0.5)
    data = tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(8)
    workload = line(train=data, validation=data)

    def found(*plugins):
        built = build_here(workload, *plugins, folder=tmp_path, batch_size=None)
        return waiting_seconds(built, epoch_seconds=60.0)

    assert found() == pytest.approx(2 * 0.5 * 20.0)  # of the training and of the validation
    assert found(Resident(xla=False)) == pytest.approx(0.5 * 20.0)
    assert found(Autotune(mode="off")) == 0.0


class SlowClock:
    """Each look at it is a second later, in nanoseconds: every step is slow."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 10**9
        return self.now


def test_steps_behind_a_cache_are_timed_once_it_is_filled(tmp_path):
    read = []

    def noted(x):
        read.append(1)
        return x

    def computed(x, y):
        return tf.ensure_shape(tf.numpy_function(noted, [x], tf.float32), (3,)), y

    plan = DataPlan.from_arrays(X, X[:, :1]).map(computed, deterministic=True)
    workload = line(train=plan, shuffle=False)
    built = build_here(workload, Cache(), folder=tmp_path, batch_size=1)
    time_steps([lambda: built], now=SlowClock())
    assert len(read) == len(X)
    assert int(built.model.optimizer.iterations) < len(X)


def long_epochs(plugin, folder):
    """A training of 500 steps an epoch, in a loop that makes them in one call."""
    built = build_here(line(500), plugin, folder=folder, batch_size=1)
    assert loop_of(built).steps == 500
    return built


def test_a_loop_whose_call_is_a_slow_epoch_is_timed_by_few_steps(tmp_path):
    built = long_epochs(Resident(xla=False), tmp_path)
    [timed] = time_steps([lambda: built], now=SlowClock())
    assert timed.step_seconds > 0
    assert int(built.model.optimizer.iterations) < 10


def test_chunks_of_many_steps_are_timed_by_shorter_ones(tmp_path):
    built = long_epochs(Chunked(steps=500, xla=False), tmp_path)
    time_steps([lambda: built], seconds=0.0)
    # two cold calls, and a block of at least one call
    assert int(built.model.optimizer.iterations) < 2 * 500


@pytest.mark.parametrize("plugin", [Chunked(steps=500, xla=False), Resident(xla=False)])
def test_whole_calls_are_timed_of_a_model_whose_look_has_told_it_to_stop(plugin, tmp_path):
    built = long_epochs(plugin, tmp_path)
    built.model.stop_training = True
    time_steps([lambda: built], seconds=0.0)
    steps = int(built.model.optimizer.iterations)
    assert steps >= 3 * 64  # two cold calls, and a block of at least one call


@attrs.frozen(kw_only=True, eq=False)
class Breaks(Plugin):
    """Its step raises."""

    @hookimpl
    def configure_training(self, options):
        def broken(step):
            raise ValueError("no step")

        return attrs.evolve(options, wrap_train_step=broken)


@pytest.mark.thorough
def test_a_stack_and_its_baseline_are_timed_in_turns(tmp_path):
    built = long_epochs(Chunked(steps=500, xla=False), tmp_path)
    without, with_ = estimates(built.workload, without_stack(built.job), built.job)
    assert without.steps == with_.steps == 500 * built.run.epochs
    assert min(without.set_up_seconds, with_.set_up_seconds) > 0
    broken = build_here(built.workload, Breaks(), folder=tmp_path, batch_size=1)
    with pytest.raises(WorkloadError, match="timing some steps raised ValueError: no step"):
        estimates(broken.workload, without_stack(broken.job), broken.job)


# What could not be tried is named with its reason, and what is known by then stands

BATCH_SIZE = 4


def with_python_function() -> Any:
    """XLA has no kernel for a Python function, so it cannot compile a step of this model."""

    class Doubled(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            doubled = tf.numpy_function(lambda values: 2 * values, [inputs], tf.float32)
            return tf.ensure_shape(doubled, inputs.shape)

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape

    return keras.Sequential([keras.Input((3,)), Doubled(), keras.layers.Dense(1)])


def test_a_loop_that_cannot_train_the_model_is_left_out_of_the_settings_with_its_reason(tmp_path):
    built = build_here(line(200), folder=tmp_path, batch_size=BATCH_SIZE)
    stack = (StackedPlugin("chunked", Chunked(steps=4)),)
    task = PrepareTask(job=attrs.evolve(built.job, plugins=stack))
    given = line(200, build_model=with_python_function, batch_size=BATCH_SIZE)
    prepared = prepare(task, print, lambda job: given)
    assert prepared.resolved == {"chunked": {"steps": 4, "xla": False}}
    [warning] = prepared.search_notes
    assert warning in prepared.warnings
    assert warning.startswith(
        'the settings of plugin "chunked" were chosen without what could not be timed: '
        "chunked with steps = 4, xla = True: raised InvalidArgumentError: "
    )
