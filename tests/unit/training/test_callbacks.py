"""Which callbacks act on batches: no loop of several steps a call may hide one from them."""

from __future__ import annotations

import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.callbacks import batch_callbacks

pytestmark = pytest.mark.tensorflow


def named(*callbacks):
    return batch_callbacks(callbacks)


def test_keras_callbacks_of_epochs_do_not():
    kinds = keras.callbacks
    assert named(
        kinds.EarlyStopping(), kinds.ModelCheckpoint("best.keras"), kinds.BackupAndRestore("here"),
        kinds.TensorBoard("logs"),
    ) == ()  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{"update_freq": "batch"}, {"update_freq": 10}, {"write_steps_per_second": True}],
    ids=str,
)
def test_a_tensorboard_that_writes_of_batches_does(options):
    assert named(keras.callbacks.TensorBoard("logs", **options)) == ("TensorBoard",)


def test_a_tensorboard_that_traces_a_batch_does(monkeypatch):
    board = keras.callbacks.TensorBoard
    # its warm-up needs the package tensorboard
    for method in ("_start_profiler", "_stop_profiler"):
        monkeypatch.setattr(board, method, lambda *arguments, **named: None)
    assert named(board("logs", profile_batch=2)) == ("TensorBoard",)


def test_a_tensorboard_does_where_the_script_has_a_writer_for_its_batch_losses(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        assert named(keras.callbacks.TensorBoard("logs")) == ("TensorBoard",)


@pytest.mark.parametrize("method", ["on_train_batch_end", "on_batch_begin"])
def test_a_method_of_the_users_own_does_whatever_else_its_class_is(method):
    for kind, arguments in ((keras.callbacks.ModelCheckpoint, ("best.keras",)),
                            (keras.callbacks.TensorBoard, ("logs",))):  # fmt: skip
        own = type("Own", (kind,), {method: lambda self, batch, logs=None: None})
        assert named(own(*arguments)) == ("Own",)


def test_a_checkpoint_after_so_many_batches_does():
    assert named(keras.callbacks.ModelCheckpoint("best.keras", save_freq=10)) == (
        "ModelCheckpoint",
    )  # fmt: skip
