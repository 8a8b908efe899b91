"""What an epoch takes besides its steps is timed by name, and writes no file of the training."""

import time

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(1).random((64, 3), "float32")


def built_with(folder, *callbacks, **changes):
    import keras
    from support.in_process import build_here

    from tfopt_core import Workload

    def build_model():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    given = {
        "train": (X, X[:, :1]), "validation": (X, X[:, :1]), "build_model": build_model,
        "optimizer": "sgd", "loss": "mse", "callbacks": lambda: list(callbacks),
    }  # fmt: skip
    return build_here(Workload(**{**given, **changes}), folder=folder, batch_size=16)


def parts_of(built, *, all_callbacks=False, folder):
    from tfopt_core.diagnosis.epoch_parts import epoch_parts, with_files_in
    from tfopt_core.diagnosis.step_loops import first_batch

    built = with_files_in(built, folder)
    parts = epoch_parts(built, first_batch(built), all_callbacks=all_callbacks)
    return {part.name: part for part in parts}


def writers(folder):
    import keras

    return (
        keras.callbacks.ModelCheckpoint(str(folder / "best.keras"), save_best_only=True),
        keras.callbacks.ModelCheckpoint(
            str(folder / "often.weights.h5"), save_freq=2, save_weights_only=True
        ),
        keras.callbacks.BackupAndRestore(str(folder / "backup")),
        keras.callbacks.CSVLogger(str(folder / "log.csv")),
    )


def test_files_of_keras_callbacks_stay_as_they_are(tmp_path):
    from tfopt_core.diagnosis.epoch_parts import with_files_in
    from tfopt_core.diagnosis.step_loops import FitLoop
    from tfopt_core.diagnosis.step_parts import RecordingLimits

    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (mine / "log.csv").write_text("of a training of a week\n")
    built = with_files_in(built_with(tmp_path, *writers(mine)), other)
    loop = FitLoop(built)
    loop.run(built.run.datasets["train"], RecordingLimits(0.0, 60.0, 7))
    loop.finish()
    parts = parts_of(built, folder=other)
    assert [path.name for path in mine.iterdir()] == ["log.csv"]
    assert (mine / "log.csv").read_text() == "of a training of a week\n"
    assert set(parts) == {
        "validation", "ModelCheckpoint", "ModelCheckpoint 2", "BackupAndRestore", "CSVLogger",
    }  # fmt: skip
    assert all(part.seconds > 0 for part in parts.values())
    assert parts["ModelCheckpoint"].note == "a save, which is made in epochs that improve"
    assert parts["ModelCheckpoint 2"].note == "2 saves, one every 2 steps"


def test_only_the_path_of_the_kind_is_changed(tmp_path):
    import keras

    from tfopt_core.diagnosis.epoch_parts import with_files_in

    class Mine(keras.callbacks.ModelCheckpoint):
        log_dir = None

    built = with_files_in(built_with(tmp_path, Mine(str(tmp_path / "m.keras"))), tmp_path / "new")
    [other] = built.training.callbacks
    assert other.filepath == str(tmp_path / "new" / "0" / "m.keras")
    assert other.log_dir is None


def test_the_seconds_are_those_of_the_callback(tmp_path):
    import keras

    class Sleeps(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            assert "val_loss" in logs
            time.sleep(0.05)

        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.01)

    built = built_with(tmp_path, Sleeps(), keras.callbacks.EarlyStopping(patience=0))
    parts = parts_of(built, all_callbacks=True, folder=tmp_path)
    assert parts["Sleeps"].seconds >= 0.09  # an end, and four steps


def test_callbacks_that_may_write_are_named_and_not_called(tmp_path):
    import keras

    class Writes(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise AssertionError

    functions = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: 1 / 0)
    parts = parts_of(built_with(tmp_path, Writes(), functions), folder=tmp_path)
    for name in ("Writes", "LambdaCallback"):
        assert parts[name].seconds is None
        assert parts[name].note.startswith("not timed: it is not called")


def test_a_long_validation_is_projected_from_its_first_batches(tmp_path, monkeypatch):
    from tfopt_core.diagnosis import epoch_parts

    monkeypatch.setattr(epoch_parts, "VALIDATION_SECONDS", 0.0)
    validation = (np.tile(X, (50, 1)), np.tile(X[:, :1], (50, 1)))
    part = parts_of(built_with(tmp_path, validation=validation), folder=tmp_path)["validation"]
    assert part.note == "projected from 1 of 200 batches"
    assert part.seconds > 0


def test_a_callback_that_takes_long_is_called_in_two_epochs(tmp_path, monkeypatch):
    import keras

    from tfopt_core.diagnosis import epoch_parts

    class Counting(keras.callbacks.Callback):
        epochs = 0

        def on_epoch_end(self, epoch, logs=None):
            self.epochs += 1

    for seconds, epochs in ((60.0, epoch_parts.EPOCHS), (0.0, 2)):
        monkeypatch.setattr(epoch_parts, "CALLBACK_SECONDS", seconds)
        counting = Counting()
        parts_of(built_with(tmp_path, counting), all_callbacks=True, folder=tmp_path)
        assert counting.epochs == epochs


def test_a_callback_that_fails_is_named_with_the_cause(tmp_path):
    import keras

    class Fails(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise ZeroDivisionError("by design")

    built = built_with(tmp_path, Fails(), keras.callbacks.ReduceLROnPlateau())
    parts = parts_of(built, all_callbacks=True, folder=tmp_path)
    assert parts["Fails"].seconds is None
    assert parts["Fails"].note == "not timed: it raised ZeroDivisionError: by design"
    assert parts["ReduceLROnPlateau"].seconds > 0


def test_a_validation_that_fails_is_named_with_the_cause(tmp_path):
    import tensorflow as tf

    from tfopt_core import DataPlan
    from tfopt_core.data import lower_plan

    def fails():
        yield X[0], X[0, :1]
        raise ZeroDivisionError("by design")

    signature = (tf.TensorSpec((3,), tf.float32), tf.TensorSpec((1,), tf.float32))
    failing = lower_plan(DataPlan.from_generator(fails, signature=signature).batch(16))
    built = built_with(tmp_path)
    built.run.datasets["validation"] = failing
    part = parts_of(built, folder=tmp_path)["validation"]
    assert part.seconds is None
    assert part.note.startswith("not timed: it raised ")
