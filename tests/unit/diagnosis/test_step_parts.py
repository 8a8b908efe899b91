"""The parts of a step, and what an epoch takes besides its steps, of which no file is written."""

import time

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.small_workloads import line

from tfopt_core import DataPlan
from tfopt_core.data import lower_plan
from tfopt_core.diagnosis.epoch_parts import EPOCHS, epoch_parts, with_files_in
from tfopt_core.diagnosis.results import Round
from tfopt_core.diagnosis.step_loops import FitLoop, first_batch
from tfopt_core.diagnosis.step_parts import (
    RecordingLimits,
    TimedEpoch,
    parts_of,
    seconds_a_step,
    with_first_epoch,
    without_waits,
)
from tfopt_core.training.messages import Block

SECONDS = st.floats(1e-6, 10)


def round_(real, cached, graph, data=0.1):
    return Round(real=real, cached=cached, graph=graph, data=data)


def epoch(*seconds, complete=True, traced=(), steps=1):
    blocks = (
        Block(steps, span, cold="trace" if number in traced else "")
        for number, span in enumerate(seconds)
    )
    return TimedEpoch(tuple(blocks), complete)


def test_what_is_left_out_of_a_loop_is_what_a_step_spends_on_it():
    parts = parts_of([round_(10, 8, 6)])
    assert parts.step_seconds == 10
    assert (parts.input.share, parts.dispatch.share, parts.compute.share) == (
        pytest.approx((0.2, 0.2, 0.6))
    )
    assert parts.dispatch_known


def test_one_disturbed_round_of_five_changes_nothing_but_the_range():
    rounds = [round_(10, 8, 6)] * 4 + [round_(10, 30, 6)]
    parts = parts_of(rounds)
    assert parts.input.share == pytest.approx(0.2)
    assert parts.input.low == pytest.approx(-2.0)


def test_reading_never_takes_longer_than_a_step_that_reads():
    assert parts_of([round_(10, 8, 6, data=11)]).data_seconds == pytest.approx(10)
    assert parts_of([round_(10, 8, 6, data=3)]).data_seconds == pytest.approx(3)


def test_without_a_graph_loop_compute_holds_dispatch_too():
    parts = parts_of([round_(10, 8, None)])
    assert not parts.dispatch_known
    assert parts.dispatch.share == 0
    assert parts.compute.share == pytest.approx(0.8)


@given(st.lists(st.builds(round_, SECONDS, SECONDS, SECONDS, SECONDS), min_size=1, max_size=7))
def test_the_parts_sum_to_a_whole_step_and_none_is_negative(rounds):
    parts = parts_of(rounds)
    each = [parts.input.share, parts.dispatch.share, parts.compute.share]
    assert sum(each) == pytest.approx(1)
    assert min(each) >= 0


def test_of_epochs_whose_end_waits_by_chance_no_wait_is_left():
    epochs = [epoch(0.3, 0.1, 0.1), epoch(7.3, 0.1, 0.1), epoch(0.2, 0.1, 0.1, complete=False)]
    left = without_waits(epochs)
    assert [one.blocks[0].seconds for one in left] == [0.3, 0.3, 0.2]
    assert seconds_a_step(left, 3) == pytest.approx(0.5 / 3)
    # so it is with a cache, whose first epoch of each loop counts as one that fills it
    cached = [attrs.evolve(one, blocks=_cold(one)) for one in epochs[:1]] + epochs[1:]
    assert [one.blocks[0].seconds for one in without_waits(cached)] == [0.3, 0.3, 0.2]


def _cold(one):
    return tuple(attrs.evolve(block, cold="cache") for block in one.blocks)


def test_a_buffer_that_fills_is_no_wait_however_many_steps_its_block_has():
    left = without_waits([epoch(0.11, steps=2), epoch(0.105, steps=1)])
    assert [one.blocks[0].seconds for one in left] == [0.11, 0.105]


def test_waits_of_a_loop_that_traces_first_are_not_told_from_the_rest():
    assert without_waits([epoch(9.0, 0.1, traced=[0]), epoch(7.3, 0.1)]) is None


STOPPED = epoch(10.1, 0.1, 0.1, 0.1, complete=False)


@pytest.mark.parametrize(
    ("epochs", "steps", "seconds"),
    [
        # the beginning is part of what its steps take
        ([epoch(1.0, 0.1, 0.1, 0.1)], 4, 1.3 / 4),
        # one that was stopped does not count beside whole ones
        ([epoch(0.5, 0.5), epoch(9.0, complete=False)], 2, 0.5),
        # the beginning of a long one is spread over all its steps, or those that were seen
        ([STOPPED], 1000, 0.1 + 10 / 1000),
        ([STOPPED], None, 10.4 / 4),
        # without steps that were traced
        ([epoch(5.0, 0.1, 0.1, traced=(0,))], 3, 0.1),
        ([epoch(0.8, 0.8, steps=8)], 16, 0.1),
    ],
)
def test_a_step_takes_its_share_of_the_epochs(epochs, steps, seconds):
    assert seconds_a_step(epochs, steps) == pytest.approx(seconds)


def test_a_loop_that_only_traced_has_no_figure():
    with pytest.raises(ValueError, match="no step"):
        seconds_a_step([epoch(5.0, traced=(0,))], 1)


def test_the_epoch_that_fills_a_cache_counts_once():
    assert with_first_epoch(1.0, 11.0, epochs=10) == pytest.approx(2.0)
    assert with_first_epoch(1.0, 11.0, epochs=1) == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("calls", "seconds", "traced", "over"),
    [
        (5, 0.2, 0, False),
        (5, 0.3, 0, True),
        (4, 5.0, 0, False),
        (1, 6.0, 0, True),
        (1, 6.0, 1, False),
        (2, 6.0, 1, True),
    ],
)
def test_a_loop_ends_after_enough_calls_of_which_a_slow_one_is_enough(calls, seconds, traced, over):
    limits = RecordingLimits(0.0, 0.3, calls=5, longest=6.0)
    assert limits.are_over(limits.at_most, calls, seconds, traced) is over


X = np.random.default_rng(1).random((64, 3), "float32")


def built_with(folder, *callbacks, **changes):
    given = {"validation": (X, X[:, :1]), "callbacks": lambda: list(callbacks), **changes}
    return build_here(line(**given), folder=folder, batch_size=16)


def besides(built, *, all_callbacks=False, folder):
    built = with_files_in(built, folder)
    parts = epoch_parts(built, first_batch(built), all_callbacks=all_callbacks)
    return {part.name: part for part in parts}


def writers(folder):
    return (
        keras.callbacks.ModelCheckpoint(str(folder / "best.keras"), save_best_only=True),
        keras.callbacks.ModelCheckpoint(
            str(folder / "often.weights.h5"), save_freq=2, save_weights_only=True
        ),
        keras.callbacks.BackupAndRestore(str(folder / "backup")),
        keras.callbacks.CSVLogger(str(folder / "log.csv")),
    )


def test_files_of_keras_callbacks_stay_as_they_are(tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (mine / "log.csv").write_text("of a training of a week\n")
    built = with_files_in(built_with(tmp_path, *writers(mine)), other)
    loop = FitLoop(built)
    loop.run(built.run.datasets["train"], RecordingLimits(0.0, 60.0, 7))
    loop.finish()
    parts = besides(built, folder=other)
    assert [path.name for path in mine.iterdir()] == ["log.csv"]
    assert (mine / "log.csv").read_text() == "of a training of a week\n"
    assert set(parts) == {
        "validation", "ModelCheckpoint", "ModelCheckpoint 2", "BackupAndRestore", "CSVLogger",
    }  # fmt: skip
    assert all(part.seconds > 0 for part in parts.values())
    assert parts["ModelCheckpoint"].note == "a save, which is made in epochs that improve"
    assert parts["ModelCheckpoint 2"].note == "2 saves, one every 2 steps"


def test_only_the_path_of_the_kind_is_changed(tmp_path):

    class Mine(keras.callbacks.ModelCheckpoint):
        log_dir = None

    built = with_files_in(built_with(tmp_path, Mine(str(tmp_path / "m.keras"))), tmp_path / "new")
    [other] = built.training.callbacks
    assert other.filepath == str(tmp_path / "new" / "0" / "m.keras")
    assert other.log_dir is None


def test_the_seconds_are_those_of_the_callback(tmp_path):
    class Sleeps(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            assert "val_loss" in logs
            time.sleep(0.05)

        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.01)

    built = built_with(tmp_path, Sleeps(), keras.callbacks.EarlyStopping(patience=0))
    parts = besides(built, all_callbacks=True, folder=tmp_path)
    assert parts["Sleeps"].seconds >= 0.09  # an end, and four steps


def test_callbacks_that_may_write_are_named_and_not_called(tmp_path):
    class Writes(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise AssertionError

    functions = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: 1 / 0)
    parts = besides(built_with(tmp_path, Writes(), functions), folder=tmp_path)
    for name in ("Writes", "LambdaCallback"):
        assert parts[name].seconds is None
        assert parts[name].note.startswith("not timed: it is not called")


def test_a_long_validation_is_projected_from_its_first_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_core.diagnosis.epoch_parts.VALIDATION_SECONDS", 0.0)
    validation = (np.tile(X, (50, 1)), np.tile(X[:, :1], (50, 1)))
    part = besides(built_with(tmp_path, validation=validation), folder=tmp_path)["validation"]
    assert part.note == "projected from 1 of 200 batches"
    assert part.seconds > 0


def test_a_callback_that_takes_long_is_called_in_two_epochs(tmp_path, monkeypatch):
    class Counting(keras.callbacks.Callback):
        epochs = 0

        def on_epoch_end(self, epoch, logs=None):
            self.epochs += 1

    for seconds, epochs in ((60.0, EPOCHS), (0.0, 2)):
        monkeypatch.setattr("tfopt_core.diagnosis.epoch_parts.CALLBACK_SECONDS", seconds)
        counting = Counting()
        besides(built_with(tmp_path, counting), all_callbacks=True, folder=tmp_path)
        assert counting.epochs == epochs


def test_a_callback_that_fails_is_named_with_the_cause(tmp_path):
    class Fails(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise ZeroDivisionError("by design")

    built = built_with(tmp_path, Fails(), keras.callbacks.ReduceLROnPlateau())
    parts = besides(built, all_callbacks=True, folder=tmp_path)
    assert parts["Fails"].seconds is None
    assert parts["Fails"].note == "not timed: it raised ZeroDivisionError: by design"
    assert parts["ReduceLROnPlateau"].seconds > 0


def test_a_validation_that_fails_is_named_with_the_cause(tmp_path):
    def fails():
        yield X[0], X[0, :1]
        raise ZeroDivisionError("by design")

    signature = (tf.TensorSpec((3,), tf.float32), tf.TensorSpec((1,), tf.float32))
    failing = lower_plan(DataPlan.from_generator(fails, signature=signature).batch(16))
    built = built_with(tmp_path)
    built.run.datasets["validation"] = failing
    part = besides(built, folder=tmp_path)["validation"]
    assert part.seconds is None
    assert part.note.startswith("not timed: it raised ")
