"""The cache stands where nothing random is kept and work is saved."""

from pathlib import Path

import attrs
import numpy as np
import pytest
from support.compared import seeded_epochs
from support.lazy_modules import keras, tf
from support.pipelines import assert_left_alone, kinds
from tfopt_data.cache import Cache, with_cache

from tfopt_core import DataPlan
from tfopt_core.data import Resident
from tfopt_core.data.lower import lower
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run


def decode(x):
    return x * 2


def augment(x):
    return tf.cast(x, "float32") + tf.random.uniform(())


def numbers():
    return DataPlan.from_arrays(np.arange(20))


@pytest.mark.parametrize(
    ("plan", "stages"),
    [
        (numbers().map(decode, deterministic=True).batch(4), "map_examples cache batch"),
        (numbers().repeat().map(decode, deterministic=True), "map_examples cache repeat"),
        (numbers().batch(4).map(decode, deterministic=True), "batch map_batches cache"),
        (DataPlan.from_generator(lambda: iter([1, 2]), deterministic=True).shuffle(2),
         "cache shuffle"),
    ],
)  # fmt: skip
def test_cache_goes_behind_what_is_computed_and_before_what_draws_or_repeats(plan, stages):
    assert kinds(with_cache(plan).plan) == ["source", *stages.split()]


def test_map_behind_a_reshuffling_shuffle_is_moved_before_it():
    plan = numbers().shuffle(seed=3).map(decode, deterministic=True).batch(4)
    rewrite = with_cache(plan)
    assert kinds(rewrite.plan) == ["source", "map_examples", "cache", "shuffle", "batch"]
    assert "moved before shuffle" in rewrite.done


@pytest.mark.promise(35, injected="random augmentation in a map")
def test_cache_goes_before_random_ops():
    # tf.random.uniform would begin anew with each iterator, since the tests set a global seed
    generator = tf.random.Generator.from_seed(1)

    def jitter(x):
        return tf.cast(x, "float32") + generator.uniform(())

    plan = numbers().map(decode).map(jitter).map(decode).batch(4)
    rewrite = with_cache(plan)
    assert kinds(rewrite.plan)[:4] == ["source", "map_examples", "cache", "map_examples"]
    cached = seeded_epochs(rewrite.plan)
    assert cached[0] != cached[1]


def test_map_is_not_moved_past_a_random_one():
    plan = numbers().map(augment).shuffle(seed=3).map(decode).batch(4)
    rewrite = with_cache(plan)
    assert rewrite.plan is plan
    assert "augment" in rewrite.reason
    assert "RandomUniform" in rewrite.reason


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (numbers().shuffle().batch(4), "nothing is computed from them"),
        (numbers().map(decode, deterministic=False).batch(4), '"decode" is not known'),
        (DataPlan.from_generator(lambda: iter([1])).batch(1), "deterministic=True"),
        (numbers().map(decode, deterministic=True).cache().batch(4), "caches its data itself"),
        (numbers().map(decode, deterministic=True).shuffle(4).take(3), "stops reading"),
        (numbers().shuffle().batch(4).map(decode, deterministic=True), "shuffled anew"),
        (numbers().map(decode, deterministic=True).append(Resident()), "held on the device"),
    ],
)
def test_plan_is_unchanged_with_the_reason(plan, reason):
    assert_left_alone(plan, with_cache(plan), reason)


def test_order_of_chance_is_kept_only_where_it_is_shuffled_anew():
    plan = numbers().map(decode, deterministic=True, parallel=2)
    plan = plan.replace(1, attrs.evolve(plan.stages[1], ordered=False))
    assert "in any order" in with_cache(plan.batch(4)).reason
    assert "in any order" in with_cache(plan.batch(4).shuffle()).reason
    assert with_cache(plan.shuffle().batch(4)).done


def test_disk_cache_is_refused_where_a_shuffle_would_hold_everything_in_memory():
    plan = numbers().shuffle(seed=3).map(decode).batch(4)
    assert "smaller buffer" in with_cache(plan, Path("x"), memory_bytes=20 * 8 - 1).reason
    assert with_cache(plan, Path("x"), memory_bytes=20 * 8).done


def test_each_build_caches_into_a_file_of_its_own(tmp_path):
    stack = Stack([StackedPlugin("cache", Cache(storage="disk"))])
    run = make_run(folder=tmp_path)
    seen = []
    for _ in range(2):
        plan = stack.build_dataset(run, "train", numbers().map(decode).batch(4))
        [path] = [stage.path for stage in plan.stages if stage.kind == "cache"]
        seen.append(path)
        list(lower(plan))
    run = attrs.evolve(run, fit_index=1)
    assert len(set(seen)) == 2
    assert all(path.parent == tmp_path / "cache-train" for path in seen)
    assert list((tmp_path / "cache-train").iterdir())


def test_data_set_of_tf_data_keeps_elements_and_order_when_its_map_is_moved():
    def given():
        keras.utils.set_random_seed(5)
        data = tf.data.Dataset.from_tensor_slices(np.arange(20)).shuffle(20).map(decode)
        return data.batch(4).prefetch(1)

    plain = [[batch.numpy().tolist() for batch in data] for data in [given()] for _ in range(3)]
    rewrite = with_cache(DataPlan.from_dataset(given()))
    assert "moved before shuffle" in rewrite.done
    data = lower(rewrite.plan)
    assert [[batch.numpy().tolist() for batch in data] for _ in range(3)] == plain
    assert plain[0] != plain[1]


def test_zip_of_deterministic_parts_is_cached_and_one_with_a_shuffle_is_not():
    numbers_ = tf.data.Dataset.range(6)
    zipped = tf.data.Dataset.zip(numbers_.map(decode), numbers_)
    assert kinds(with_cache(DataPlan.from_dataset(zipped.batch(2))).plan)[:2] == ["source", "cache"]
    shuffled = tf.data.Dataset.zip(numbers_.shuffle(6).map(decode), numbers_)
    assert "another order" in with_cache(DataPlan.from_dataset(shuffled)).reason


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (lambda plan: plan.map(augment), "each epoch sees the first one's values"),
        (lambda plan: plan.shuffle(seed=1), "the first one's order"),
    ],
)
def test_misplaced_cache_of_the_workload_is_said_and_left_alone(before, said):
    plan = before(numbers().map(decode)).cache().batch(4)
    rewrite = with_cache(plan)
    assert rewrite.plan is plan
    assert "caches its data itself, and in a wrong place" in rewrite.reason
    assert said in rewrite.reason


@pytest.mark.promise(35, injected="the same, with the cache asked for behind it")
def test_forced_cache_behind_a_random_op_is_refused_naming_the_op():
    plan = numbers().map(decode).map(augment).batch(4)
    with pytest.raises(PluginRefused, match=r'"augment" yields .* \(op RandomUniform\)'):
        with_cache(plan, place="end")
    assert with_cache(numbers().map(decode).batch(4), place="end").done
