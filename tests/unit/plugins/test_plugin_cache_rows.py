"""Maps over batches keep their results by row where each row is made of one row alone."""

from pathlib import Path

import numpy as np
import pytest
from support.compared import seeded_epochs
from support.lazy_modules import keras, tf
from tfopt_data.cache import Cache
from tfopt_data.cache_rows import maps_over_batches, with_cached_rows

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run

X = np.random.default_rng(3).normal(size=(50, 3)).astype("float32")
Y = np.arange(50)


def scale(x, y):
    return x * 3.0 + 1.0, y


def center(x, y):
    return x - tf.reduce_mean(x, axis=0), y


def jitter(x, y):
    return x + tf.random.uniform(tf.shape(x)), y


def table(size=8, **batch):
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=4).batch(size, **batch)


def rows_of(plan, **settings):
    found = maps_over_batches(plan)
    assert found is not None
    return with_cached_rows(plan, found, **settings)


def as_before(data, **settings):
    """The rewrite of a data set, whose epochs must hold the same batches, still reordered."""
    plain, rewrite = (
        seeded_epochs(DataPlan.from_dataset(data)),
        rows_of(DataPlan.from_dataset(data), **settings),
    )
    assert rewrite.done, rewrite.reason
    kept = seeded_epochs(rewrite.plan)
    assert kept == plain
    assert kept[0] != kept[1]
    # no faster step by static shapes
    assert batch_size(lower(rewrite.plan)) == batch_size(data)
    return rewrite


def batch_size(data):
    return tf.nest.flatten(data.element_spec)[0].shape[0]


def test_rows_are_computed_once_and_batches_stay_the_same():
    calls = []

    def counted(x, y):
        calls.append(1)
        return tf.numpy_function(lambda x: (calls.append(1), x * 2)[1], [x], "float32", False), y

    plan = DataPlan.from_arrays(X, Y).shuffle(seed=4).batch(8).map(counted)
    rewrite = rows_of(plan)
    computed = len(calls)
    assert rewrite.done.startswith("in memory, 50 rows of ")
    seeded_epochs(rewrite.plan)
    assert len(calls) == computed
    assert [stage.kind for stage in rewrite.plan.stages] == ["source", "shuffle", "batch"]


def test_examples_that_are_repeated_or_left_out_behind_the_shuffle_stay_so():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).map(scale).shuffle(50, seed=4)
    as_before(data.repeat(2).take(70).batch(8).map(scale))


def test_a_division_by_a_constant_is_the_same_for_each_row():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 8)).astype("uint8")
    data = tf.data.Dataset.from_tensor_slices(pixels).shuffle(50, seed=4).batch(8)
    as_before(data.map(lambda x: tf.cast(x, tf.float32) / 255.0))


def test_rows_in_files_are_the_same_ones(tmp_path):
    rewrite = as_before(table().map(scale), memory_bytes=0, folder=tmp_path / "rows")
    assert rewrite.done.startswith("on disk")


def longest(text, y):
    return tf.strings.length(tf.strings.split(text).to_tensor()), y


def first_of_batch(x, y):
    return x - x[:1], y


def total(x, y):
    return tf.reduce_sum(x), y


def ragged(x, y):
    return tf.RaggedTensor.from_tensor(x), y


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (first_of_batch, "makes something else of the same rows"),
        (total, "does not make one row of each row"),
        (ragged, "makes a RaggedTensor"),
        (jitter, "yields something else each time (op RandomUniform)"),
    ],
)
def test_a_map_that_is_not_by_rows_is_named_with_its_line(function, reason):
    plan = DataPlan.from_dataset(table().map(function))
    rewrite = rows_of(plan)
    line = function.__code__.co_firstlineno
    assert rewrite.plan is plan
    assert f'map "{function.__name__}" ({Path(__file__).name}:{line})' in rewrite.reason
    assert reason in rewrite.reason


def test_padding_to_the_longest_of_a_batch_is_told_apart():
    texts = np.array([" ".join(["w"] * (1 + i % 5)) for i in range(40)])
    data = tf.data.Dataset.from_tensor_slices((texts, np.arange(40))).shuffle(40).batch(2)
    rewrite = rows_of(DataPlan.from_dataset(data.map(longest)))
    assert "pad to a fixed length" in rewrite.reason


def test_a_dependence_that_the_first_batches_hide_shows_later():
    x = np.zeros((20_000, 1), "float32")
    x[15_000:] = np.random.default_rng(1).random((5_000, 1))
    data = tf.data.Dataset.from_tensor_slices((x, np.arange(20_000))).shuffle(9).batch(500)
    rewrite = rows_of(DataPlan.from_dataset(data.map(first_of_batch)))
    assert "in another batch" in rewrite.reason


def test_maps_are_kept_up_to_the_first_that_is_not_by_rows():
    rewrite = as_before(table().map(scale).map(center))
    assert 'not kept: map "center"' in rewrite.done
    assert [stage.kind for stage in rewrite.plan.stages] == [
        "source", "shuffle", "batch", "map_batches",
    ]  # fmt: skip


def test_random_maps_behind_the_rows_draw_on():
    rewrite = rows_of(DataPlan.from_dataset(table().map(scale).map(jitter)))
    assert "RandomUniform" in rewrite.done
    assert len({str(epoch[0]) for epoch in seeded_epochs(rewrite.plan)}) == 3


def test_a_cache_at_the_end_is_refused_naming_the_map():
    plan = DataPlan.from_dataset(table().map(center))
    with pytest.raises(PluginRefused, match=r'"center" \(test_plugin_cache_rows.py:\d+\)'):
        Cache(storage="memory", place="end").build_dataset(make_run(), "train", plan)


def test_rows_that_do_not_fit_are_refused_with_their_size():
    rewrite = rows_of(DataPlan.from_dataset(table().map(scale)), memory_bytes=999)
    assert "the rows need" in rewrite.reason
    assert rows_of(DataPlan.from_dataset(table().map(scale)), memory_bytes=1000).done


def test_batches_that_are_not_drawn_anew_are_left_to_the_cache_of_batches():
    data = tf.data.Dataset.from_tensor_slices((X, Y))
    assert maps_over_batches(DataPlan.from_dataset(data.batch(8).map(scale))) is None
    assert maps_over_batches(DataPlan.from_dataset(data.batch(8).shuffle(9).map(scale))) is None


def test_the_effect_reads_back_that_the_map_is_gone(train):
    plan = DataPlan.from_dataset(table(16, drop_remainder=True).map(lambda x, y: (x * 2, y)))

    def model():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    driven = train(Cache(storage="memory"), plan=plan, model=model)
    assert driven.effect.applied
    assert "50 rows of" in driven.effect.detail
    mixed = train(
        Cache(storage="memory"), plan=DataPlan.from_dataset(table(16).map(center)), model=model
    )
    assert not mixed.effect.applied
    assert 'map "center"' in mixed.effect.detail
