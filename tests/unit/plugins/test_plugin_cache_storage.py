"""Where a cache keeps its elements: memory, disk, or as much as fits."""

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.compared import elements, seeded_epochs
from support.lazy_modules import tf
from support.pipelines import assert_left_alone
from support.plugin_drive import FakeProbe
from tfopt_data.cache import Cache, with_partial_cache

from tfopt_core import DataPlan
from tfopt_core.data import Cache as CacheStage
from tfopt_core.data import Opaque, Options
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run

MIB = 2**20


@pytest.fixture(autouse=True)
def tensors_that_take_their_own_bytes_only(monkeypatch):
    """So that the numbers below can be checked by eye."""
    monkeypatch.setattr("tfopt_core.data.anatomy.TENSOR_OVERHEAD_BYTES", 0)


def decode(x):
    return x * 2


def as_bytes(x):
    """An element of 8 bytes becomes one of 800."""
    return tf.fill([100], x)


FOUR, TRAIN = (10.0, 4), {"splits": ("train",)}


@pytest.mark.promise(34, injected='memory and disks with too little room, with `storage = "auto"`')
@pytest.mark.parametrize(
    ("settings", "probe", "storage"),
    [
        ({}, {"sizes": {"train": FOUR, "validation": FOUR}, "free": 100}, "disk-or-partial"),
        (TRAIN, {"sizes": {"train": FOUR, "validation": FOUR}, "free": 100}, "memory"),
        ({"storage": "disk"}, {"sizes": {"train": FOUR}, "free": 100}, "disk"),
        ({}, {"sizes": {"train": FOUR}, "free": 100}, "memory"),
        ({}, {"sizes": {"train": FOUR}, "free": 10}, "disk-or-partial"),
        ({}, {"sizes": {"train": (10.0, None)}, "free": 2**30}, "disk-or-partial"),
        ({}, {"sizes": {"train": (MIB, 100)}, "free": 64 * MIB, "disk": 99 * MIB}, "partial"),
        ({"memory_mib": 10}, {"sizes": {"train": (MIB, 10)}, "disk": 0}, "memory"),
        ({"memory_mib": 9}, {"sizes": {"train": (MIB, 10)}, "disk": 0}, "partial"),
    ],
)
def test_all_splits_go_where_there_is_room_or_was_asked_for(settings, probe, storage):
    resolved = Cache(**settings).resolve(FakeProbe(**probe))
    assert resolved.storage == storage
    if storage == "partial":
        assert resolved.memory_mib == settings.get("memory_mib", 32)


@pytest.mark.promise(34, injected="free memory below the size of the examples")
def test_cache_larger_than_memory_is_refused_with_the_sizes():
    probe = FakeProbe(sizes={"train": (2.0**20, 3 * 2**10)}, free=2**30)
    with pytest.raises(PluginRefused, match=r"need 3 GiB and 1 GiB of memory are free"):
        Cache(storage="memory", splits=("train",)).resolve(probe)
    with pytest.raises(PluginRefused, match="need 3 GiB and 9 MiB may be used"):
        Cache(memory_mib=9, storage="memory").resolve(probe)


@pytest.mark.promise(10, injected="free space below the estimate")
def test_disk_cache_that_the_disk_has_no_room_for_is_refused_with_the_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_data.cache_storage.free_disk_bytes", lambda folder: 80)
    plan = DataPlan.from_arrays(np.arange(10)).map(decode, deterministic=True)
    run = make_run(folder=tmp_path)
    with pytest.raises(PluginRefused, match="need about 80 bytes and 80"):
        Cache(storage="disk").build_dataset(run, "train", plan)


def test_cache_on_disk_is_read_back_from_its_files(train):
    x = np.random.default_rng(0).random((64, 4), dtype="float32")
    plan = DataPlan.from_arrays(x, x[:, :1]).map(lambda a, b: (a * 2, b)).batch(16)
    effect = train(Cache(storage="disk"), plan=plan).effect
    assert effect.applied
    assert "train: on disk, after map_examples" in effect.detail

    # as on a full disk: a small cache is written at its end, and nobody is told that it failed
    taken = plan.map(lambda a, b: (a, b)).append(Opaque(function=lambda data: data.take(2)))
    short = train(Cache(storage="disk", splits=("train",)), plan=taken).effect
    assert not short.applied
    assert "was never completed" in short.detail


def test_part_that_fits_is_kept_and_the_figures_are_said():
    plan = DataPlan.from_arrays(np.arange(100)).map(as_bytes).batch(8)
    rewrite = with_partial_cache(plan, 30 * 800)
    first, second = rewrite.plan.source.parts
    assert [stage.kind for stage in first.stages] == ["source", "take", "map_examples", "cache"]
    assert [stage.kind for stage in second.stages] == ["source", "skip", "map_examples"]
    assert first.stages[1].count == second.stages[1].count == 30
    assert "30 of 100 elements, about 23 KiB, the others streamed" in rewrite.done
    assert elements(rewrite.plan) == elements(plan)


def test_what_a_tensor_takes_beside_its_bytes_counts_in_memory(monkeypatch):
    monkeypatch.setattr("tfopt_core.data.anatomy.TENSOR_OVERHEAD_BYTES", 192)
    plan = DataPlan.from_arrays(np.arange(10)).map(lambda x: (x, x))
    part = with_partial_cache(plan, 3 * (16 + 2 * 192)).plan.source.parts[0]
    assert part.stages[1].count == 3


def test_only_the_others_are_computed_again_in_the_second_epoch():
    calls = []

    def count(x):
        return tf.numpy_function(lambda v: calls.append(int(v)) or v, [x], tf.int64)

    plan = DataPlan.from_arrays(np.arange(10)).map(count, deterministic=True)
    # the sample that tells the size is computed here
    data = lower(with_partial_cache(plan, 4 * 8).plan)
    calls.clear()
    for _ in range(2):
        assert [int(x) for x in data] == list(range(10))
    assert calls == [*range(10), *range(4, 10)]


def test_behind_a_shuffle_over_all_results_are_kept_by_number_and_the_order_stays():
    calls = []

    def count(x):
        return tf.ensure_shape(
            tf.numpy_function(lambda v: calls.append(int(v)) or v, [x], tf.int64), []
        )

    def pair(x):
        return {"x": tf.fill([3], x), "y": x}

    plan = DataPlan.from_arrays(np.arange(10)).shuffle(seed=1)
    plan = plan.map(count, deterministic=True).map(pair).batch(4)
    rewrite = with_partial_cache(plan, 4 * 32)
    assert [stage.kind for stage in rewrite.plan.stages[1:]] == ["shuffle", "map_examples", "batch"]
    assert "4 of 10 elements, about 128 bytes, the others streamed" in rewrite.done

    wanted = seeded_epochs(plan)
    calls.clear()
    assert rewrite.confirmed is not None
    assert not rewrite.confirmed(None)
    assert seeded_epochs(rewrite.plan) == wanted
    assert wanted[0] != wanted[1]
    assert sorted(calls) == sorted([*range(10), *range(4, 10), *range(4, 10)])
    assert rewrite.confirmed(None)


def test_disk_falls_back_to_a_part_where_a_shuffle_stands_against_it_and_was_not_asked_for(
    tmp_path,
):
    plan = DataPlan.from_arrays(np.zeros([8, 2**17])).shuffle(seed=1).map(decode)
    asked = Cache(memory_mib=6, splits=("train",), storage="disk")
    assert asked.build_dataset(make_run(folder=tmp_path), "train", plan) is plan
    chosen = attrs.evolve(asked, storage="disk-or-partial")
    made = chosen.build_dataset(make_run(folder=tmp_path), "train", plan)
    assert [stage.kind for stage in made.stages] == ["source", "shuffle", "map_examples"]


def test_what_is_larger_before_a_map_draws_than_in_the_end_is_kept_in_part(tmp_path):
    def augment(x):
        image = tf.image.resize(tf.reshape(x, [4, 4, 1]), [256, 256])
        return tf.image.random_crop(image, [4, 4, 1])

    data = tf.data.Dataset.from_tensor_slices(np.zeros([16, 16], "float32")).map(augment)
    asked = Cache(memory_mib=2, splits=("train",), storage="memory")
    made = asked.build_dataset(
        make_run(folder=tmp_path), "train", DataPlan.from_dataset(data.batch(4))
    )
    kept, streamed = made.source.parts
    assert (kept.examples, streamed.examples) == (8, 8)
    assert kept.find(CacheStage) is not None


def test_kept_results_are_read_back(train):
    x = np.random.default_rng(0).random((64, 2**14), dtype="float32")
    plan = DataPlan.from_arrays(x).shuffle(seed=1).map(lambda a: (a[:4], a)).batch(16)
    plan = plan.map(lambda a, b: (a, b[::-1, :1]))
    effect = train(Cache(storage="partial", memory_mib=2, splits=("train",)), plan=plan).effect
    assert effect.applied
    assert "train: results in memory in part: 31 of 64 elements" in effect.detail


def test_whole_is_cached_where_the_part_would_be_all():
    plan = DataPlan.from_arrays(np.arange(10)).map(decode)
    assert with_partial_cache(plan, 80).plan.find(CacheStage) == 2


@pytest.mark.parametrize(
    ("plan", "budget", "reason"),
    [
        (DataPlan.from_arrays(np.arange(10)).map(decode), 7, "not even one element"),
        (
            DataPlan.from_generator(lambda: iter([1, 2]), deterministic=True),
            8,
            "no work on single elements",
        ),
        (
            DataPlan.from_arrays(np.array([b"a", b"bc"])).shuffle(seed=1).map(lambda x: x + "!"),
            3,
            "only examples of one shape can be kept behind it",
        ),
        (
            DataPlan.from_arrays(np.arange(10)).filter(lambda x: x > 1).shuffle(4).map(decode),
            8,
            "would hold 32 bytes of computed examples",
        ),
    ],
)
def test_no_part_is_kept_with_the_reason(plan, budget, reason):
    assert_left_alone(plan, with_partial_cache(plan, budget), reason)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("how", ["stage", "options"])
def test_no_part_is_kept_behind_a_stage_that_does_not_keep_the_order(how, shuffled):
    plan = DataPlan.from_arrays(np.arange(10)).interleave(_pair, cycle_length=3, parallel=2)
    place = len(plan.stages) - 1
    if how == "stage":
        plan = plan.replace(place, attrs.evolve(plan.stages[place], ordered=False))  # type: ignore[call-arg]
    else:
        options = tf.data.Options()
        options.deterministic = False
        plan = plan.replace(place, attrs.evolve(plan.stages[place], ordered=None))  # type: ignore[call-arg]
        plan = plan.append(Options(options=options))
    plan = (plan.shuffle(seed=1) if shuffled else plan).map(as_bytes)
    assert_left_alone(plan, with_partial_cache(plan, 4 * 800), "in any order")


def test_batches_are_kept_whole_where_they_are_computed():
    plan = DataPlan.from_arrays(np.arange(22)).batch(4).map(decode)
    rewrite = with_partial_cache(plan, 11 * 8)
    assert rewrite.plan.source.parts[0].stages[1].count == 8
    assert rewrite.plan.batched
    assert elements(rewrite.plan) == elements(plan)


def _steps():
    return st.sampled_from(
        [
            lambda plan: plan.map(decode),
            lambda plan: plan.map(lambda x: x + 1, parallel=2),
            lambda plan: plan.filter(lambda x: x % 3 != 0),
            lambda plan: plan.take(17),
            lambda plan: plan.interleave(_pair, cycle_length=1),
            lambda plan: plan.interleave(_pair, cycle_length=3),
            lambda plan: plan.shuffle(5, seed=3, reshuffle=False),
            lambda plan: plan.shuffle(4, seed=3),
        ]
    )


def _pair(x):
    return tf.data.Dataset.from_tensors(x).repeat(2)


@pytest.mark.thorough
@few_examples(30)
@given(st.integers(1, 30), st.lists(_steps(), max_size=4), st.integers(1, 300))
def test_hybrid_keeps_the_elements_and_their_order_in_every_epoch(count, steps, budget):
    plan = DataPlan.from_arrays(np.arange(count))
    for step in steps:
        plan = step(plan)
    plan = plan.batch(3)
    kept = with_partial_cache(plan, budget).plan
    assert seeded_epochs(kept, 2) == seeded_epochs(plan, 2)
