"""The order of data and calls: of a training that goes on, a run's hooks, and a fit's callbacks."""

from time import perf_counter_ns
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from support.in_process import job_here
from support.lazy_modules import keras, tf
from support.small_workloads import line

from tfopt_core.hooks.stack import Stack
from tfopt_core.plugins import Control, Effect, Plugin, hookimpl
from tfopt_core.training.build import build
from tfopt_core.training.callbacks import batch_callbacks, keras_callback
from tfopt_core.training.checkpoints.state import make_iterators
from tfopt_core.training.fit import train
from tfopt_core.training.fit_monitor import FitMonitor
from tfopt_core.training.input.shuffle_draws import ShuffleDraws

EPOCHS, DONE = 5, 2


def shuffled(count=8, seed=1, **options):
    return tf.data.Dataset.range(count).shuffle(count, seed=seed, **options)


def filling():
    return tf.data.Dataset.from_tensors(tf.zeros([0], tf.int64)).repeat()


def zipped(*parts):
    return tf.data.Dataset.zip(parts).map(lambda first, second: 10 * first + second)


PIPELINES = {
    "shuffle": lambda: shuffled().batch(4),
    "of an unknown number": lambda: shuffled().filter(lambda x: x > 2).batch(4),
    "repeat": lambda: shuffled().repeat(3).batch(4),
    "repeat of an unknown number": lambda: (
        shuffled().repeat(2).filter(lambda x: x > 2).batch(4).prefetch(1)
    ),
    "cache": lambda: shuffled().cache().batch(4),
    "cache, shuffle": lambda: shuffled().cache().shuffle(3, seed=2).batch(4),
    "cache that is never full": lambda: shuffled().cache().shuffle(3, seed=2).batch(4).take(1),
    "repeat of a cache": lambda: shuffled().cache().shuffle(8, seed=2).repeat(2).batch(4),
    "two shuffles": lambda: shuffled().shuffle(3, seed=2).batch(4),
    "even steps": lambda: shuffled().batch(4).concatenate(filling()).take(3),
    "zip": lambda: zipped(shuffled(), shuffled(seed=2)).repeat(2).batch(4),
    "the same order each time": lambda: shuffled(reshuffle_each_iteration=False).repeat(2).batch(4),
}


def epochs_trained_on(dataset, epochs):
    """The elements in the order in which Keras' `fit` trains on them, epoch by epoch."""
    seen = []

    def see(batch):
        seen[-1].extend(int(x) for x in batch)
        return np.float32(0)

    class Model(keras.Model):
        def train_step(self, data):
            return {"loss": tf.numpy_function(see, [data], tf.float32)}

    class Epochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append([])

    model = Model()
    model.compile()
    model.fit(dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[Epochs()])
    return seen


@pytest.mark.thorough
@pytest.mark.parametrize("name", PIPELINES)
def test_the_epochs_after_a_stop_come_in_the_order_of_an_undisturbed_training(name):
    undisturbed = epochs_trained_on(PIPELINES[name](), EPOCHS)
    dataset = PIPELINES[name]()
    built = SimpleNamespace(
        model=SimpleNamespace(_distribute_strategy=None),
        run=SimpleNamespace(cluster=None, datasets={"train": dataset}),
    )
    make_iterators(built, DONE)
    assert epochs_trained_on(dataset, EPOCHS - DONE) == undisturbed[DONE:]


@pytest.mark.parametrize(
    ("name", "passes"),
    [("shuffle", 0), ("even steps", 0), ("cache", 1), ("repeat", DONE), ("two shuffles", DONE)],
)
def test_no_more_is_read_than_the_order_rests_on(name, passes):
    read = []

    def see(batch):
        read.append(len(batch))
        return batch

    def seen(batch):
        result = tf.numpy_function(see, [batch], tf.int64)
        result.set_shape(batch.shape)
        return result

    dataset = PIPELINES[name]().map(seen)
    built = SimpleNamespace(
        model=SimpleNamespace(_distribute_strategy=None),
        run=SimpleNamespace(cluster=None, datasets={"train": dataset, "validation": [1]}),
    )
    make_iterators(built, DONE)
    assert len(read) == passes * int(dataset.cardinality())


@pytest.fixture
def draws():
    counted = ShuffleDraws()
    counted.install()
    yield counted
    counted.remove()


def test_a_shuffle_that_a_fit_repeated_stays_where_it_is_in_every_later_fit(draws):
    shuffled = tf.data.Dataset.from_tensor_slices(np.arange(8)).shuffle(8)
    once, repeated = shuffled.batch(4), shuffled.repeat().batch(4)
    draws.note_fit(once)
    assert draws.begun(once) == draws.begun(repeated) == frozenset()
    draws.note_fit(repeated)
    assert draws.begun(once) == draws.begun(repeated) == {shuffled}


def test_what_is_read_without_end_to_time_it_has_no_shuffle_stay(draws):
    data = tf.data.Dataset.from_tensor_slices(np.arange(8)).shuffle(8).batch(4)
    next(iter(data.repeat()))
    assert draws.begun(data) == frozenset()


CALLS = []


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
        logs["mine"] = 1.0  # which no plugin behind it sees

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
    workload = line(10)
    job = job_here(Writes(name="a"), Owns(name="b"), folder=tmp_path)
    CALLS.clear()
    in_parent = Stack(job.plugins)
    in_parent.configure_runtime(job.machine, job.recipe)
    job = attrs.evolve(job, runtime_changes=in_parent.all_changes)
    built = build(job, attrs.evolve(workload, validation=workload.train))
    train(built, perf_counter_ns(), lambda message: None)
    built.stack.report_effects(built.run, built.model)

    both = ["a", "b"]
    metrics = "loss val_data_loss val_loss"
    assert [
        *(f"{name} configure_runtime here" for name in both),
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
    counter = SimpleNamespace(callbacks=lambda: [keras_callback(noting("counts"))])
    monitor = noting("monitor", clock=clock, counter=counter)
    users = [keras_callback(noting("first")), keras_callback(noting("second"))]
    for callback in FitMonitor.callbacks(monitor, users, noting("checkpoints")):
        callback.on_epoch_end(0)
    assert calls == ["steps end", "counts", "first", "second", "clock", "monitor", "checkpoints"]


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
