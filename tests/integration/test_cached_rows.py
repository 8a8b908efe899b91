"""Cached rows of maps over batches: trainings on them equal Keras' own, and are certified."""

from __future__ import annotations

import numpy as np
import pytest
from support.in_process import replay_here, train_here
from support.lazy_modules import keras, layers, tf
from tfopt_data import computed_rows
from tfopt_data.cache import Cache
from tfopt_runtime.resident import Resident

from tfopt_core import Workload
from tfopt_core.statistics.certificate import certify

pytestmark = pytest.mark.tensorflow

EPOCHS, BATCH_SIZE, SEED = 3, 16, 5
WORDS = np.random.default_rng(1).choice(["red", "green", "blue"], 70)
NUMBERS = np.random.default_rng(2).normal(5.0, 2.0, 70).astype("float32")
LABELS = ((WORDS == "red") | (NUMBERS > 6)).astype("float32")


def rows(part):
    return {"word": WORDS[part], "number": NUMBERS[part]}, LABELS[part]


def standardized(columns):
    """Which depends on the other rows of a batch."""
    number = columns["number"]
    return (number - tf.reduce_mean(number)) / tf.math.reduce_std(number)


def table(number=None):
    """The workload of a table that Keras layers encode batch by batch, and its model's inputs."""
    look_up = layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="one_hot")
    normalize = layers.Normalization(axis=None, mean=5.0, variance=4.0)
    normalize.build((None,))

    def encode(columns, label):
        value = normalize(columns["number"]) if number is None else number(columns)
        word = tf.cast(look_up(columns["word"]), "float32")
        return tf.concat([word, value[:, None]], axis=1), label

    def batches(part, shuffle):
        data = tf.data.Dataset.from_tensor_slices(rows(part))
        data = data.shuffle(50, seed=3) if shuffle else data
        return data.batch(BATCH_SIZE).map(encode, num_parallel_calls=2).prefetch(2)

    def build_model():
        inputs = keras.Input((5,))
        hidden = layers.Dense(8, activation="relu")(inputs)
        return keras.Model(inputs, layers.Dense(1)(hidden))

    return Workload(
        train=batches(slice(0, 50), True),
        validation=batches(slice(50, 70), False),
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
    )


def trained(folder, *plugins, **settings):
    """The history, and the effects of the plugins."""
    keras.utils.set_random_seed(SEED)
    built, outcome = train_here(
        table(**settings), *plugins, folder=folder, seed=SEED, epochs=EPOCHS, batch_size=None
    )
    return outcome.history, list(built.stack.report_effects(built.run, built.model).values())


@pytest.fixture(scope="module")
def by_keras():
    """The history of plain `compile` and `fit` over the workload's own data."""
    keras.utils.set_random_seed(SEED)
    workload = table()
    keras.utils.set_random_seed(SEED)
    model = workload.build_model()
    model.compile("adam", workload.loss, metrics=["accuracy"])
    fitted = model.fit(
        workload.train, validation_data=workload.validation, epochs=EPOCHS, verbose=0
    )
    return fitted.history


@pytest.mark.parametrize(
    "plugins",
    [
        [Cache(storage="memory")],
        pytest.param([Cache(storage="disk")], marks=pytest.mark.thorough),
        pytest.param([Cache(storage="memory"), Resident(xla=False)], marks=pytest.mark.thorough),
    ],
    ids=["memory", "disk", "resident"],
)
def test_losses_are_those_of_plain_keras(plugins, tmp_path, by_keras):
    history, effects = trained(tmp_path, *plugins)
    assert all(effect.applied for effect in effects), effects
    assert "50 rows of table.encode" in effects[0].detail
    for name, values in by_keras.items():
        assert history[name] == pytest.approx(values, rel=1e-5), name


@pytest.mark.thorough
def test_a_map_that_uses_the_other_rows_is_left_alone_and_named(tmp_path):
    _, (effect,) = trained(
        tmp_path, Cache(storage="memory", splits=("train",)), number=standardized
    )
    assert not effect.applied
    assert 'map "table.encode" (test_cached_rows.py:' in effect.detail
    assert "of the same rows" in effect.detail


def replayed(folder, *plugins):
    settings = {"seed": SEED, "epochs": EPOCHS, "batch_size": None}
    return replay_here(table, *plugins, folder=folder, **settings)


def test_the_certificate_compares_the_rows_and_their_order(tmp_path, monkeypatch):
    plain = replayed(tmp_path)
    certificate = certify("exact", plain, replayed(tmp_path, Cache(storage="memory")))
    assert certificate.statement.startswith("same training, certified"), certificate.statement

    right = computed_rows.leaves_of
    monkeypatch.setattr(computed_rows, "leaves_of", lambda made: [x[::-1] for x in right(made)])
    monkeypatch.setattr(computed_rows, "differ", lambda *rows: False)
    wrong = certify("exact", plain, replayed(tmp_path, Cache(storage="memory")))
    assert not wrong.statement.startswith("same training, certified")
