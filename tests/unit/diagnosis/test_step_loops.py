"""The loops that a diagnosis times do what they are timed for."""

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(1).random((40, 3), "float32")


def workload(**changes):
    import keras

    from tfopt_core import Workload

    def build_model():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    given = {"train": (X, X[:, :1]), "build_model": build_model, "optimizer": "sgd", "loss": "mse"}
    return Workload(**{**given, **changes})


@pytest.fixture
def built(tmp_path):
    from support.in_process import build_here

    return build_here(workload(), folder=tmp_path, batch_size=16)


def fit_loop(built):
    from tfopt_core.diagnosis.step_loops import FitLoop

    return FitLoop(built)


def limits(calls, seconds=0.0, at_most=60.0):
    from tfopt_core.diagnosis.step_parts import RecordingLimits

    return RecordingLimits(seconds, at_most, calls)


def steps_of(epochs):
    return [sum(block.steps for block in epoch.blocks) for epoch in epochs]


def test_fit_goes_over_whole_epochs_and_says_which_steps_traced(built):
    loop = fit_loop(built)
    epochs = loop.run(built.run.datasets["train"], limits(calls=7))
    assert steps_of(epochs) == [3, 3, 3]  # 16, 16 and 8 examples
    assert all(epoch.complete for epoch in epochs)
    traced = [block.steps for epoch in epochs for block in epoch.blocks if block.cold == "trace"]
    assert traced == [1]
    assert int(built.model.optimizer.iterations) == 9
    assert {trace.shapes for trace in loop.traces} == {"(?, 3), (?, 1)"}


def test_fit_stops_within_an_epoch_that_is_too_long(built):
    epochs = fit_loop(built).run(built.run.datasets["train"], limits(calls=2, at_most=0.0))
    assert (steps_of(epochs), epochs[0].complete) == ([2], False)


def test_a_repeated_batch_needs_no_new_trace(built):
    from tfopt_core.diagnosis.step_loops import first_batch, repeated

    loop = fit_loop(built)
    loop.run(built.run.datasets["train"], limits(calls=3))
    traces = len(loop.traces)
    batch = first_batch(built)
    data = repeated(batch, built.run.element_spec, built.run.steps_per_epoch)
    epochs = loop.run(data, limits(calls=6))
    assert steps_of(epochs) == [3, 3]
    assert len(loop.traces) == traces
    assert data.element_spec == built.run.element_spec
    for element in data:
        np.testing.assert_array_equal(element[0], batch[0])


def test_callbacks_see_batches_and_no_end_of_an_epoch_or_training(tmp_path):
    import keras
    from support.in_process import build_here

    seen = []

    class Seeing(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append("train begin")

        def on_train_batch_end(self, batch, logs=None):
            seen.append("batch")

        def on_epoch_end(self, epoch, logs=None):
            seen.append("epoch end")

        def on_train_end(self, logs=None):
            seen.append("train end")

    made = build_here(workload(callbacks=lambda: [Seeing()]), folder=tmp_path, batch_size=20)
    fit_loop(made).run(made.run.datasets["train"], limits(calls=2))
    assert seen == ["train begin", "batch", "batch"]


def test_the_model_is_left_as_keras_made_it(built):
    loop = fit_loop(built)
    loop.run(built.run.datasets["train"], limits(calls=2))
    loop.finish()
    assert "train_step" not in vars(built.model)
    assert built.model.train_function is None


def test_a_call_of_the_graph_loop_makes_its_steps(built):
    from tfopt_core.diagnosis.step_loops import GraphLoop, first_batch

    fit_loop(built).run(built.run.datasets["train"], limits(calls=2))
    loop = GraphLoop(built, first_batch(built))
    before = int(built.model.optimizer.iterations)
    loop.call_steps = 7
    assert len(loop.run(limits(calls=3))) == 3
    assert int(built.model.optimizer.iterations) == before + 21


@pytest.mark.parametrize("count", [1, 2, 37])
def test_the_data_loop_reads_every_batch_once(count):
    import tensorflow as tf

    from tfopt_core.diagnosis.step_loops import DataLoop

    read = []
    data = tf.data.Dataset.range(count).map(
        lambda n: tf.py_function(lambda m: read.append(int(m)) or m, [n], tf.int64)
    )
    epochs = DataLoop(data).run(limits(calls=1))
    assert read[:count] == list(range(count))
    assert steps_of(epochs)[0] == count
    assert epochs[0].complete


def test_batches_of_a_pydataset_are_read_alone_too(tmp_path):
    import keras
    from support.in_process import build_here

    from tfopt_core.diagnosis.step_loops import DataLoop, first_batch

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return X[: 8 - index], X[: 8 - index, :1]

    made = build_here(workload(train=Batches()), folder=tmp_path, batch_size=None)
    data = made.run.datasets["train"]
    [epoch] = DataLoop(data).run(limits(calls=3))
    assert len(epoch.blocks) == 3
    assert first_batch(made)[0].shape == (8, 3)
