"""The loops that a diagnosis times do what they are timed for; few steps of slow ones."""

from time import monotonic

import numpy as np
import pytest
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.small_workloads import line, pydataset

from tfopt_core.diagnosis import step_rounds
from tfopt_core.diagnosis.step_loops import DataLoop, FitLoop, GraphLoop, first_batch, repeated
from tfopt_core.diagnosis.step_parts import RecordingLimits, parts_of

X = np.random.default_rng(1).random((40, 3), "float32")


@pytest.fixture
def built(tmp_path):
    return build_here(line(40), folder=tmp_path, batch_size=16)


def limits(calls, seconds=0.0, at_most=60.0):
    return RecordingLimits(seconds, at_most, calls)


def steps_of(epochs):
    return [sum(block.steps for block in epoch.blocks) for epoch in epochs]


def test_fit_goes_over_whole_epochs_and_says_which_steps_traced(built):
    loop = FitLoop(built)
    epochs = loop.run(built.run.datasets["train"], limits(calls=7))
    assert steps_of(epochs) == [3, 3, 3]  # 16, 16 and 8 examples
    assert all(epoch.complete for epoch in epochs)
    traced = [block.steps for epoch in epochs for block in epoch.blocks if block.cold == "trace"]
    assert traced == [1]
    assert int(built.model.optimizer.iterations) == 9
    assert {trace.shapes for trace in loop.traces} == {"(?, 3), (?, 1)"}


def test_fit_stops_within_an_epoch_that_is_too_long(built):
    epochs = FitLoop(built).run(built.run.datasets["train"], limits(calls=2, at_most=0.0))
    assert (steps_of(epochs), epochs[0].complete) == ([2], False)


def test_a_repeated_batch_needs_no_new_trace(built):
    loop = FitLoop(built)
    loop.run(built.run.datasets["train"], limits(calls=3))
    traces = len(loop.traces)
    batch = first_batch(built)
    data = repeated(batch, built.run.element_spec, built.run.steps_per_epoch)
    epochs = loop.run(data, limits(calls=6))
    assert steps_of(epochs) == [3, 3]
    assert len(loop.traces) == traces
    assert data.element_spec == built.run.element_spec
    # else the end of each epoch may wait for the thread that tunes, as if dispatch took that long
    assert data.options().autotune.enabled is False
    for element in data:
        np.testing.assert_array_equal(element[0], batch[0])


def test_callbacks_see_batches_and_no_end_of_an_epoch_or_training(tmp_path):
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

    made = build_here(line(40, callbacks=lambda: [Seeing()]), folder=tmp_path, batch_size=20)
    FitLoop(made).run(made.run.datasets["train"], limits(calls=2))
    assert seen == ["train begin", "batch", "batch"]


def test_the_model_is_left_as_keras_made_it(built):
    loop = FitLoop(built)
    loop.run(built.run.datasets["train"], limits(calls=2))
    loop.finish()
    assert "train_step" not in vars(built.model)
    assert built.model.train_function is None


def test_a_call_of_the_graph_loop_makes_its_steps(built):
    FitLoop(built).run(built.run.datasets["train"], limits(calls=2))
    loop = GraphLoop(built, first_batch(built))
    before = int(built.model.optimizer.iterations)
    loop.call_steps = 7
    assert len(loop.run(limits(calls=3))) == 3
    assert int(built.model.optimizer.iterations) == before + 21


@pytest.mark.parametrize("count", [1, 2, 37])
def test_the_data_loop_reads_every_batch_once(count):
    read = []
    data = tf.data.Dataset.range(count).map(
        lambda n: tf.py_function(lambda m: read.append(int(m)) or m, [n], tf.int64)
    )
    epochs = DataLoop(data).run(limits(calls=1))
    assert read[:count] == list(range(count))
    assert steps_of(epochs)[0] == count
    assert epochs[0].complete


def test_batches_of_a_pydataset_are_read_alone_too(tmp_path):
    batches = pydataset(*((X[:size], X[:size, :1]) for size in (8, 7, 6)))
    made = build_here(line(40, train=batches), folder=tmp_path, batch_size=None)
    data = made.run.datasets["train"]
    [epoch] = DataLoop(data).run(limits(calls=3))
    assert len(epoch.blocks) == 3
    assert first_batch(made)[0].shape == (8, 3)


@pytest.mark.parametrize(
    ("left", "step_seconds", "most"), [(29.0, 20.0, 0), (-1.0, None, 2), (29.0, 0.1, None)]
)
def test_a_look_at_slow_steps_makes_a_handful_of_them(
    monkeypatch, tmp_path, left, step_seconds, most
):
    built = build_here(line(), folder=tmp_path, batch_size=4)
    monkeypatch.setattr(step_rounds, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(step_rounds, "QUICK_SHARE", 0.05)
    said = []
    found = step_rounds.time_rounds(
        built, said.append, ends_at=monotonic() + left, step_seconds=step_seconds
    )
    [measured] = found.rounds
    assert any("fewer repetitions" in text for text in said) is (most is not None)
    assert any("few steps were timed" in text for text in found.warnings) is (most is not None)
    if most is None:
        assert measured.graph is not None
        return
    # two more if reading a batch alone takes long, as it may seem to on a busy machine
    assert int(built.model.optimizer.iterations) <= most + 2
    assert measured.graph is None
    assert measured.cached <= measured.real
    assert step_seconds in (None, measured.real)


def test_what_the_ends_of_epochs_wait_in_the_mean_is_input(built, monkeypatch):
    def waiting(built, seconds, splits):
        assert splits == ("train",)  # that of the validation is no part of a training step
        return 3 * seconds

    monkeypatch.setattr(step_rounds, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(step_rounds, "waiting_seconds", waiting)
    found = step_rounds.time_rounds(built, lambda text: None, ends_at=monotonic() + 30.0)
    assert parts_of(found.rounds).input.share > 0.6
