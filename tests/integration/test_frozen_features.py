"""Frozen features: trainings on them equal Keras' own, and traps are refused by name."""

import attrs
import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras, layers, tf
from support.small_workloads import with_own_step
from tfopt_data.frozen_features import FrozenFeatures

from tfopt_core import DataPlan, Workload
from tfopt_core.plugins import PluginRefused

EPOCHS, BATCH_SIZE, SEED = 3, 16, 5
PICTURES = np.random.default_rng(1).integers(0, 256, (70, 8, 8, 3)).astype("uint8")
LABELS = (PICTURES.mean((1, 2, 3)) > 127.5).astype("int32")


def frozen_base(*between):
    inner = [layers.Conv2D(4, 3, strides=2), layers.BatchNormalization(), *between, layers.ReLU()]
    base = keras.Sequential([keras.Input((8, 8, 3)), *inner], name="base")
    base.trainable = False
    return base


def transfer(base=frozen_base, first=()):
    pictures = hidden = keras.Input((8, 8, 3))
    for layer in [*first, layers.Rescaling(1 / 127.5, offset=-1.0)]:
        hidden = layer(hidden)
    hidden = base()(hidden, training=False)
    hidden = layers.GlobalAveragePooling2D(name="pool")(hidden)
    hidden = layers.Dropout(0.3)(hidden)
    return keras.Model(pictures, layers.Dense(2)(hidden))


def workload(build_model=transfer, train=None, callbacks=()):
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
        callbacks=lambda: list(callbacks),
    )


SETTINGS = {"seed": SEED, "epochs": EPOCHS, "batch_size": BATCH_SIZE}


def effects_of(built, **changes):
    run = attrs.evolve(built.run, **changes)
    return list(built.stack.report_effects(run, built.model).values())


def trained(folder, *plugins, **settings):
    """The built training and its history."""
    built, outcome = train_here(workload(**settings), *plugins, folder=folder, **SETTINGS)
    return built, outcome.history


def refused(folder, **settings):
    """The effect of a plugin that can do nothing for the training; it stays as it was."""
    built = build_here(workload(**settings), FrozenFeatures(), folder=folder, **SETTINGS)
    [effect] = effects_of(built)
    assert built.plans["train"].model_stages == ()
    assert not effect.applied
    return effect.detail


@pytest.fixture(scope="module")
def on_features(tmp_path_factory):
    """What was built, its history, and a checkpoint that a callback has written."""
    folder = tmp_path_factory.mktemp("features")
    saves = keras.callbacks.ModelCheckpoint(folder / "whole.keras")
    return (*trained(folder / "run", FrozenFeatures(), callbacks=[saves]), folder / "whole.keras")


def test_losses_are_those_of_the_whole_model(on_features, tmp_path):
    _, history, _ = on_features
    _, plain = trained(tmp_path)
    assert set(history) == set(plain)
    for name, values in plain.items():
        assert history[name] == pytest.approx(values, rel=1e-4, abs=1e-6), name


def test_what_was_trained_on_is_read_back(on_features):
    built, *_ = on_features
    [effect] = effects_of(built)
    assert effect.applied, effect.detail
    assert 'up to "pool"' in effect.detail
    inputs, _ = built.run.datasets["train"].element_spec
    assert [spec.shape.as_list() for (spec,) in inputs.values()] == [[None, 4]]
    [of_one_epoch] = effects_of(built, epochs=1)
    assert of_one_epoch.applied
    assert of_one_epoch.detail.startswith(f"{effect.detail}; trained one epoch")


def test_a_frozen_weight_that_changes_in_the_training_is_refused_at_its_end(on_features):
    built, *_ = on_features
    kernel = built.model.get_layer("base").layers[0].kernel
    before = kernel.numpy()
    kernel.assign(before + 1)
    try:
        with pytest.raises(PluginRefused, match="was changed in the training"):
            effects_of(built)
    finally:
        kernel.assign(before)


# (that callbacks evaluate, predict and save weights as ever, test_drawn_fits.py compares)
def test_a_callback_saves_the_whole_model_while_it_trains_and_it_is_unwrapped(on_features):
    built, _, file = on_features
    saved = keras.saving.load_model(file)
    assert type(saved) is type(built.stack.unwrap(built.model)) is type(transfer())
    expected = built.model.predict(PICTURES, verbose=0)
    np.testing.assert_allclose(saved.predict(PICTURES, verbose=0), expected, rtol=1e-5)


def inner_dropout():
    return frozen_base(layers.Dropout(0.5))


def augmented():
    return transfer(first=[layers.RandomFlip(name="flip")])


def normalizing():
    """Without weights to train, and yet in training mode."""
    pictures = keras.Input((8, 8, 3))
    hidden = layers.BatchNormalization(center=False, scale=False, name="batches")(pictures)
    hidden = layers.Flatten()(frozen_base()(hidden))
    return keras.Model(pictures, layers.Dense(2)(hidden))


def across_examples():
    pictures = keras.Input((8, 8, 3))
    hidden = layers.Flatten()(frozen_base()(pictures))
    hidden = hidden - keras.ops.mean(hidden, axis=0, keepdims=True)
    return keras.Model(pictures, layers.Dense(2)(hidden))


def called_again():
    pictures = keras.Input((8, 8, 3))
    frozen = layers.Dense(3, name="twice")
    frozen.trainable = False
    hidden = layers.Flatten()(frozen(layers.Dense(3)(frozen(pictures))))
    return keras.Model(pictures, layers.Dense(2)(hidden))


def frozen_output():
    pictures = keras.Input((8, 8, 3))
    first = layers.Flatten()(layers.Dense(3, trainable=False)(pictures))
    last = layers.Dense(4, trainable=False)(first)
    return keras.Model(
        pictures, [layers.Dense(2)(layers.Add()([last, layers.Dense(4)(last)])), first]
    )


def widened():
    part = [frozen_base(), layers.Flatten(), layers.Dense(2)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *part])
    model.dtype_policy = "float64"
    return model


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
        (called_again, 'the layer "twice" is called again after the frozen part'),
        (frozen_output, "Keras makes no model of what is behind its frozen part"),
        (widened, "to float64, which its inputs are not"),
        (across_examples, "computes with the other examples of a batch"),
        pytest.param(
            lambda: with_own_step(transfer()),
            'the class "Own" may read its inputs',
            marks=pytest.mark.thorough,
        ),
        pytest.param(unfrozen, 'the layer "base" is trainable', marks=pytest.mark.thorough),
    ],
)
def test_what_cannot_be_cut_is_named_and_trains_as_before(build_model, reason, tmp_path):
    assert reason in refused(tmp_path, build_model=build_model)


def test_random_maps_of_the_data_are_named(tmp_path):
    def noisy(picture, label):
        return tf.cast(picture, "float32") + tf.random.normal((8, 8, 3)), label

    train = DataPlan.from_arrays(PICTURES[:50], LABELS[:50]).map(noisy)
    assert 'noisy" yields something else each time' in refused(tmp_path, train=train)


def test_a_filter_behind_a_shuffle_is_named_since_it_would_be_given_features(tmp_path):
    def bright(picture, label):
        return label > 0

    train = DataPlan.from_arrays(PICTURES[:50], LABELS[:50]).shuffle(seed=1).filter(bright)
    assert 'bright" reads the inputs of the model' in refused(tmp_path, train=train)
