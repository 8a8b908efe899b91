"""Frozen features: trainings on them equal Keras' own, and traps are refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.in_process import train_here
from support.real_process import tfopt
from tfopt_data.frozen_features import FrozenFeatures
from tfopt_data.frozen_prefix import Halves
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident

from tfopt_core import DataPlan, Workload
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.replaying import certify
from tfopt_core.recipe import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.job import Job
from tfopt_core.training.replay.replay import replay

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("float32_afterwards")]

EPOCHS, BATCH_SIZE, SEED = 3, 16, 5
PICTURES = np.random.default_rng(1).integers(0, 256, (70, 8, 8, 3)).astype("uint8")
LABELS = (PICTURES.mean((1, 2, 3)) > 127.5).astype("int32")


def frozen_base(*between):
    import keras
    from keras import layers

    base = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, strides=2),
            layers.BatchNormalization(),
            *between,
            layers.ReLU(),
        ],
        name="base",
    )
    base.trainable = False
    return base


def transfer(base=frozen_base, first=(), dropout=0.3):
    import keras
    from keras import layers

    pictures = hidden = keras.Input((8, 8, 3))
    for layer in [*first, layers.Rescaling(1 / 127.5, offset=-1.0)]:
        hidden = layer(hidden)
    hidden = base()(hidden, training=False)
    hidden = layers.GlobalAveragePooling2D(name="pool")(hidden)
    hidden = layers.Dropout(dropout)(hidden)
    return keras.Model(pictures, layers.Dense(2)(hidden))


def workload(build_model=transfer, train=None):
    import keras

    held = slice(50, 70)
    return Workload(
        train=train or DataPlan.from_arrays(PICTURES[:50], LABELS[:50]),
        validation=DataPlan.from_arrays(PICTURES[held], LABELS[held]),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        batch_size=BATCH_SIZE,
    )


def trained(folder, *plugins, **settings):
    """The built training, its history and the effect of the first plugin."""
    built, outcome = train_here(
        workload(**settings), *plugins, folder=folder, seed=SEED, epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )  # fmt: skip
    effects = list(built.stack.report_effects(built.run, built.model).values())
    return built, outcome.history, effects[0] if effects else None


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("baseline"))[1]


def assert_equal(history, baseline):
    assert set(history) == set(baseline)
    for name, values in baseline.items():
        assert history[name] == pytest.approx(values, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("storage", ["memory", pytest.param("disk", marks=pytest.mark.thorough)])
def test_losses_are_those_of_the_whole_model(storage, tmp_path, baseline):
    built, history, effect = trained(tmp_path, FrozenFeatures(storage=storage))
    assert effect.applied, effect.detail
    assert 'up to "pool"' in effect.detail
    assert_equal(history, baseline)
    inputs, _ = built.run.datasets["train"].element_spec
    assert [spec.shape.as_list() for (spec,) in inputs.values()] == [[None, 4]]


@pytest.mark.parametrize(
    "loop",
    [
        Resident(xla=False),
        pytest.param(Chunked(xla=False, steps=2), marks=pytest.mark.thorough),
    ],
    ids=["resident", "chunked"],
)
def test_loops_train_on_features(loop, tmp_path):
    def without_dropout():
        return transfer(dropout=0.0)

    _, expected, _ = trained(tmp_path / "whole", build_model=without_dropout)
    built, history, _ = trained(
        tmp_path / "features", FrozenFeatures(), loop, build_model=without_dropout
    )
    effects = built.stack.report_effects(built.run, built.model)
    assert [effect.applied for effect in effects.values()] == [True, True]
    assert_equal(history, expected)


def test_the_saved_model_is_the_whole_one(tmp_path):
    import keras

    built, _, _ = trained(tmp_path, FrozenFeatures())
    in_training = tmp_path / "checkpoint.keras"
    built.model.save(in_training)  # as a callback does
    expected = built.model.predict(PICTURES, verbose=0)
    whole = built.stack.unwrap(built.model)
    assert type(whole) is type(transfer())
    whole.save(tmp_path / "whole.keras")
    for file in (in_training, tmp_path / "whole.keras"):
        loaded = keras.saving.load_model(file)
        np.testing.assert_allclose(loaded.predict(PICTURES, verbose=0), expected, rtol=1e-5)


def inner_dropout():
    from keras import layers

    return frozen_base(layers.Dropout(0.5))


def augmented():
    from keras import layers

    return transfer(first=[layers.RandomFlip(name="flip")])


def normalizing():
    """Without weights to train, and yet in training mode."""
    import keras
    from keras import layers

    pictures = keras.Input((8, 8, 3))
    hidden = layers.BatchNormalization(center=False, scale=False, name="batches")(pictures)
    hidden = layers.Flatten()(frozen_base()(hidden))
    return keras.Model(pictures, layers.Dense(2)(hidden))


def across_examples():
    import keras
    from keras import layers

    pictures = keras.Input((8, 8, 3))
    hidden = layers.Flatten()(frozen_base()(pictures))
    hidden = hidden - keras.ops.mean(hidden, axis=0, keepdims=True)
    return keras.Model(pictures, layers.Dense(2)(hidden))


def of_its_own():
    import keras

    class Own(keras.Model):
        def train_step(self, data):
            return super().train_step(data)

    whole = transfer()
    return Own(whole.input, whole.output)


def unfrozen():
    whole = transfer()
    whole.get_layer("base").trainable = True
    return whole


@pytest.mark.parametrize(
    ("build_model", "reason"),
    [
        (augmented, 'the layer "flip" draws at random'),
        (lambda: transfer(inner_dropout), 'the layer "base" draws at random'),
        (normalizing, "batch normalization in training mode"),
        (across_examples, "computes with the other examples of a batch"),
        pytest.param(of_its_own, 'the class "Own" may read its inputs', marks=pytest.mark.thorough),
        pytest.param(unfrozen, 'the layer "base" is trainable', marks=pytest.mark.thorough),
    ],
)
def test_what_cannot_be_cut_is_named_and_trains_as_before(build_model, reason, tmp_path):
    built, _, effect = trained(tmp_path, FrozenFeatures(), build_model=build_model)
    assert not effect.applied
    assert reason in effect.detail
    assert built.plans["train"].model_stages == ()


def test_random_maps_of_the_data_are_named(tmp_path):
    import tensorflow as tf

    def noisy(picture, label):
        return tf.cast(picture, "float32") + tf.random.normal((8, 8, 3)), label

    train = DataPlan.from_arrays(PICTURES[:50], LABELS[:50]).map(noisy)
    _, _, effect = trained(tmp_path, FrozenFeatures(), train=train)
    assert not effect.applied
    assert 'noisy" yields something else each time' in effect.detail


def test_a_frozen_weight_that_changes_in_the_training_is_noticed(tmp_path):
    import attrs
    import keras

    def unfreeze(epoch, logs):
        kernel = callback.model.get_layer("base").layers[0].kernel
        kernel.assign_add(keras.ops.ones_like(kernel))

    callback = keras.callbacks.LambdaCallback(on_epoch_end=unfreeze)
    given = attrs.evolve(workload(), callbacks=lambda: [callback])
    built, _ = train_here(
        given, FrozenFeatures(), folder=tmp_path, seed=SEED, epochs=2, batch_size=BATCH_SIZE
    )
    (effect,) = built.stack.report_effects(built.run, built.model).values()
    assert not effect.applied
    assert "changed in the training" in effect.detail


def replayed(folder, *plugins):
    import keras

    def load(job):
        keras.utils.set_random_seed(job.seed)
        return workload()

    spec = WorkloadSpec(use="here", epochs=EPOCHS, batch_size=BATCH_SIZE)
    job = Job(
        recipe=Recipe(name="here", workload=spec),
        plugins=tuple(StackedPlugin(type(plugin).__name__, plugin) for plugin in plugins),
        variant="full" if plugins else "baseline",
        seed=SEED,
        machine=make_machine(),
        folder=folder / "run",
    )
    return replay(job, folder / "shared", load)


def test_the_certificate_trains_on_features_of_the_stored_batches(tmp_path, monkeypatch):
    whole = replayed(tmp_path)
    certificate = certify("exact", whole, replayed(tmp_path, FrozenFeatures()))
    assert certificate.statement.startswith("same training, certified"), certificate.statement

    right = Halves.features
    monkeypatch.setattr(Halves, "features", lambda cut, x: tuple(1.1 * f for f in right(cut, x)))
    wrong = certify("exact", whole, replayed(tmp_path, FrozenFeatures()))
    assert not wrong.statement.startswith("same training, certified")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_script_trains_its_head_on_features_and_keeps_its_model_whole(tmp_path):
    name = "frozen_clipart.py"
    shutil.copy(Path(__file__).parent / "scripts" / name, tmp_path / name)
    recipe = f'name = "head"\n[workload]\nscript = "{name}"\n'
    plugin = '[[plugins]]\nuse = "frozen-features"\n'

    def head(*lines):
        (tmp_path / "recipe.toml").write_text(recipe + "".join(lines), encoding="utf-8")
        done = tfopt("train", "recipe.toml", cwd=tmp_path)
        assert done.code == 0, done.err
        [history] = [line for line in done.out.splitlines() if "history: head" in line]
        return history, " ".join(done.out.split())

    plain, _ = head('[[plugins]]\nuse = "prefetch"\n')
    history, said = head(plugin)
    assert history == plain
    assert 'in 1 of 2 fits: train: up to "pool", in memory' in said
    assert 'the layer "base" is trainable' in said
