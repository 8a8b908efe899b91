"""A training that goes on from a checkpoint: the same losses, to the last digit, as undisturbed."""

from time import perf_counter_ns

import attrs
import numpy as np
import pytest
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.small_workloads import pydataset
from tfopt_model.adaptive_l2 import AdaptiveL2
from tfopt_model.dropconnect import DropConnect
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident

from tfopt_core import DataPlan, Workload
from tfopt_core.errors import InputError
from tfopt_core.files import Disk
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.checkpoints.folder import names_in
from tfopt_core.training.fit import train
from tfopt_core.training.job import CheckpointConfig
from tfopt_core.training.messages import Note

EPOCHS, BATCH, EXAMPLES = 3, 8, 84  # 11 steps an epoch, the last one of 4 examples


class KeepsAll(Disk):
    """A disk on which former checkpoints stay."""

    def remove(self, path):
        if path.suffix != ".tfopt":
            super().remove(path)


def arrays(seed=0, count=EXAMPLES):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 6)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32")


def layers():
    return [
        keras.layers.Dense(8, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.4),
        keras.layers.Dense(2),
    ]


def model():
    return keras.Sequential([keras.layers.Input((6,)), *layers()])


def two_layers():
    dense = keras.layers.Dense
    return keras.Sequential([keras.layers.Input((6,)), dense(4, activation="relu"), dense(2)])


def unbuilt_model():
    return keras.Sequential(layers())


def make_workload(train_data=None, build_model=model, **changes):
    plain = {
        "train": arrays() if train_data is None else train_data,
        "validation": arrays(1, 20),
        "build_model": build_model,
        "optimizer": "adam",
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        "baseline": "a small network",
    }
    return Workload(**{**plain, **changes})


def traced_soon(train_data=None, **changes):
    """The same with as little to trace as there may be, for what is not about the model."""
    small = {"build_model": two_layers, "optimizer": "sgd", "metrics": [], "validation": None}
    return make_workload(train_data, **{**small, **changes})


def run(tmp_path, make, *plugins, config=None, batch_size=BATCH, disk=None, notes=None):
    """Train; what came of it. `make` makes the workload, anew for each training."""
    built = build_here(
        make(), *plugins, folder=tmp_path, seed=7, epochs=EPOCHS, batch_size=batch_size
    )
    told = [] if notes is None else notes
    checkpointer = None
    if config is not None:
        checkpointer = Checkpointer(config, told.append, disk=disk or Disk())
    return built, train(built, perf_counter_ns(), told.append, checkpointer=checkpointer)


def assert_goes_on(tmp_path, make, *plugins, at=(0,), notes=None, **options):
    """Going on from these checkpoints ends as the undisturbed training ended.

    There is one after each epoch, and the last one is that of the finished training. By default
    from that of the first epoch.
    """
    built, plain = run(tmp_path, make, *plugins, **options)
    weights, folder = built.model.get_weights(), tmp_path / "checkpoints"
    _, written = run(
        tmp_path, make, *plugins, config=CheckpointConfig(folder=folder),
        disk=KeepsAll(), notes=notes, **options,
    )  # fmt: skip
    assert written.history == plain.history, "writing checkpoints changes the training"
    names = names_in(folder)[::-1]
    for place in at:
        name = names[place]
        config = CheckpointConfig(folder=folder, start=name)
        again, outcome = run(tmp_path, make, *plugins, config=config, disk=KeepsAll(), **options)
        assert outcome.resumed
        assert outcome.epochs == plain.epochs
        assert outcome.history.keys() == plain.history.keys()
        for metric, values in plain.history.items():
            np.testing.assert_array_equal(outcome.history[metric], values, f"{metric} from {name}")
        for was, now in zip(weights, again.model.get_weights(), strict=True):
            np.testing.assert_array_equal(now, was, name)
    return names


def test_strength_and_masks_of_plugins_go_on_too(tmp_path):
    notes = []
    plugins = (AdaptiveL2(strength=0.1, window=2, flat=0.0), DropConnect(masks="batch"))

    def make():
        return traced_soon(validation=arrays(1, 20))

    names = assert_goes_on(tmp_path, make, *plugins, at=(1,), notes=notes)
    assert len(names) == EPOCHS + 1
    # a callback without a state of its own, and random numbers that checkpoints hold
    assert [note for note in notes if isinstance(note, Note) and "checkpoint" in note.text] == []


def test_stock_fit_goes_on_to_the_last_digit(tmp_path):
    notes = []
    names = assert_goes_on(tmp_path, make_workload, notes=notes)
    assert len(names) == EPOCHS + 1
    # dropout and shuffles are no reason for one
    assert [message for message in notes if isinstance(message, Note)] == []


LOOPS = {
    "chunked": Chunked(steps=4, xla=False),
    "resident": Resident(steps=4, xla=False),
    "float16 with loss scaling": MixedPrecision(policy="mixed_float16", force=True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("plugin", LOOPS.values(), ids=LOOPS)
def test_every_loop_and_precision_goes_on_to_the_last_digit(plugin, tmp_path):
    assert_goes_on(tmp_path, make_workload, plugin)


def unbuilt_of_unknown_length():
    """A model that is built in its first step, over data whose number of batches is unknown."""
    tf.random.set_seed(1)  # whether or not another test has trained before
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(EXAMPLES).batch(BATCH)
    return make_workload(data.filter(lambda x, y: True), unbuilt_model)


def random_maps_and_validation():
    """Random ops in the data, class weights, a cache, and validation data that shuffle."""
    tf.random.set_seed(1)  # whether or not another test has trained before

    def noisy(x, y):
        return x + tf.random.normal(tf.shape(x)), y

    def pipeline(data):
        slices = tf.data.Dataset.from_tensor_slices(data)
        return slices.cache().shuffle(50).map(noisy, num_parallel_calls=1).batch(BATCH).prefetch(2)

    return make_workload(
        pipeline(arrays()), validation=pipeline(arrays(1)).take(3), class_weight={0: 0.5, 1: 2.0}
    )


def drawing_while_read():
    """Shuffles that draw their seeds in the middle of an epoch, or in the first one only."""
    tf.random.set_seed(1)  # a shuffle's seed is made of this and its own
    # 42 are half of EXAMPLES, and read twice an epoch
    data = tf.data.Dataset.from_tensor_slices(arrays(count=42)).shuffle(42, seed=5).repeat(2)
    held_out = tf.data.Dataset.from_tensor_slices(arrays(1, 20)).shuffle(20, seed=6).cache()
    return traced_soon(data.shuffle(8, seed=7), validation=held_out.shuffle(4, seed=8).take(12))


def frozen_by_a_cache():
    tf.random.set_seed(1)
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(EXAMPLES, seed=5).cache()
    return make_workload(data)


@pytest.mark.parametrize(
    ("make", "at"),
    [
        pytest.param(drawing_while_read, (0,), id="after one epoch"),
        pytest.param(frozen_by_a_cache, (0, 1), id="a cache", marks=pytest.mark.thorough),
    ],
)
def test_shuffles_before_a_repeat_or_a_cache_go_on(make, at, tmp_path):
    assert_goes_on(tmp_path, make, at=at)


def drawing_generator():
    """Data that draw from NumPy's global generator while they are read."""
    x, y = arrays()

    def examples():
        for index in np.random.permutation(EXAMPLES):
            yield x[index] + np.random.normal(size=6).astype("float32"), y[index]

    signature = (tf.TensorSpec((6,), tf.float32), tf.TensorSpec((), tf.int32))
    plan = DataPlan.from_generator(examples, signature=signature)
    return make_workload(plan, shuffle=False)


def with_callbacks():
    kinds = keras.callbacks
    return make_workload(
        callbacks=lambda: [
            kinds.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
            kinds.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.5, min_delta=9),
            kinds.EarlyStopping("val_loss", patience=2, min_delta=9, restore_best_weights=True),
        ]
    )


def batches():
    """A PyDataset, of which Keras shuffles the batches by Python's own generator."""
    x, y = arrays()
    return pydataset(
        *((x[at : at + BATCH], y[at : at + BATCH]) for at in range(0, EXAMPLES, BATCH))
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("make", "at", "batch_size"),
    [
        pytest.param(unbuilt_of_unknown_length, (0,), None, id="an unbuilt model"),
        pytest.param(random_maps_and_validation, (0,), None, id="maps, class weights, validation"),
        pytest.param(drawing_generator, (0,), BATCH, id="data that draw from NumPy"),
        # stopped after the third epoch, with the weights of the first: at each of these ends
        pytest.param(with_callbacks, (0, 1, 2, 3), BATCH, id="early stopping, reduced rates"),
        pytest.param(lambda: make_workload(batches()), (0,), None, id="a PyDataset"),
    ],
)
def test_whatever_has_a_state_goes_on(make, at, batch_size, tmp_path):
    assert_goes_on(tmp_path, make, at=at, batch_size=batch_size)


@attrs.frozen(kw_only=True, eq=False)
class Counts(Plugin):
    """Counts epochs."""

    @hookimpl
    def on_epoch_end(self, run):
        run.state_of(self)["epochs"] = run.state_of(self).get("epochs", 0) + 1


def test_what_a_plugin_notes_goes_on(tmp_path):
    folder, plugin = tmp_path / "checkpoints", Counts()
    run(tmp_path, traced_soon, plugin, config=CheckpointConfig(folder=folder), disk=KeepsAll())
    config = CheckpointConfig(folder=folder, start=names_in(folder)[-1])  # after the first epoch
    built, _ = run(tmp_path, traced_soon, plugin, config=config)
    assert built.run.state_of(plugin) == {"epochs": EPOCHS}


def drawing_in_the_step():
    class Draws(keras.layers.Layer):
        def call(self, x):
            return x + tf.random.uniform(tf.shape(x))

    return traced_soon(build_model=lambda: keras.Sequential(
        [keras.layers.Input((6,)), Draws(), keras.layers.Dense(2)]
    ))  # fmt: skip


def with_a_callback():
    class Mine(keras.callbacks.Callback):
        pass

    return traced_soon(callbacks=lambda: [Mine()])


def remembering_epochs():
    data = batches()
    type(data).on_epoch_end = lambda self: None
    return traced_soon(data)


@pytest.mark.parametrize(
    ("make", "batch_size", "said"),
    [
        (drawing_in_the_step, BATCH, "draws random numbers by RandomUniform"),
        (with_a_callback, BATCH, "callback Mine"),
        (remembering_epochs, None, "on_epoch_end of the data"),
    ],
)
def test_what_no_checkpoint_holds_is_named(make, batch_size, said, tmp_path):
    config, notes = CheckpointConfig(folder=tmp_path / "c"), []
    run(tmp_path, make, config=config, notes=notes, batch_size=batch_size)
    [note] = [message.text for message in notes if isinstance(message, Note)]
    assert said in note


def test_a_process_that_does_not_write_leaves_no_file(tmp_path):
    built = build_here(traced_soon(), folder=tmp_path, epochs=1, batch_size=BATCH)
    checkpointer = Checkpointer(
        CheckpointConfig(folder=tmp_path / "c"), lambda message: None, writes=False
    )
    train(built, perf_counter_ns(), lambda message: None, checkpointer=checkpointer)
    assert not (tmp_path / "c").exists()


@pytest.mark.thorough
def test_another_model_is_refused(tmp_path):
    folder = tmp_path / "checkpoints"
    run(tmp_path, traced_soon, config=CheckpointConfig(folder=folder))
    config = CheckpointConfig(folder=folder, start=names_in(folder)[-1])
    with pytest.raises(InputError, match="the checkpoint does not fit the model"):
        run(tmp_path, lambda: traced_soon(build_model=model), config=config)
