"""Data shared out among workers: together they train on what one device would."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.cases import few_examples
from support.lazy_modules import tf
from support.pipelines import kinds
from tfopt_data.data_service import with_service
from tfopt_data.rewrite import chosen_otherwise
from tfopt_distribute.sharing import (
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
    by_batch,
    by_source,
    in_words,
    shared_plan,
)

from tfopt_core import DataPlan
from tfopt_core.data import (
    EvenSteps,
    MapExamples,
    Prefetch,
    Shard,
    Shuffle,
    Skip,
    Source,
    Take,
    Unbatch,
    Window,
)
from tfopt_core.data.lower import lower
from tfopt_core.data.plan import DataPlan as Plan
from tfopt_core.plugins import PluginRefused

EPOCHS = 3


def numbers(count: int, size: int, *, drop: bool = False, mapped: bool = True) -> DataPlan:
    """Ids in a new order each epoch, in pairs with what a map makes of them."""
    plan = DataPlan.from_arrays(np.arange(count)).shuffle(seed=5)
    if mapped:
        plan = plan.map(lambda x: (x, x * 10), deterministic=True)
    return plan.batch(size, drop_remainder=drop)


def epochs_of(plan: DataPlan) -> list[list[list[int]]]:
    """The ids of every batch, epoch by epoch."""

    def ids(batch: Any) -> list[int]:
        return [int(x) for x in (batch[0] if isinstance(batch, tuple) else batch)]

    dataset = lower(plan)
    return [[ids(batch) for batch in dataset] for _ in range(EPOCHS)]


def put_together(parts: list[list[list[list[int]]]]) -> list[list[list[int]]]:
    """The global batches of every epoch out of those of all workers."""
    return [
        [list(itertools.chain(*rows)) for rows in zip(*epoch, strict=True)]
        for epoch in zip(*parts, strict=True)
    ]


@pytest.mark.tensorflow
@few_examples(15)
@given(
    count=st.integers(1, 40),
    size=st.integers(1, 12),
    workers=st.integers(2, 4),
    drop=st.booleans(),
    mapped=st.booleans(),
)
@pytest.mark.thorough
def test_the_parts_of_all_workers_are_the_batches_of_one_device_in_every_epoch(
    count: int, size: int, workers: int, drop: bool, mapped: bool
) -> None:
    whole = numbers(count, size, drop=drop, mapped=mapped)
    shared = [by_batch(whole, workers, rank) for rank in range(workers)]
    alone = epochs_of(whole)
    assert put_together([epochs_of(plan) for plan in shared]) == alone
    assert epochs_of(by_batch(whole, workers, None)) == alone
    for plan in (*shared, by_batch(whole, workers, None)):
        assert (plan.examples, plan.batch_size, plan.cardinality) == (count, size, len(alone[0]))
        assert int(lower(plan).cardinality()) == len(alone[0])


@pytest.mark.tensorflow
def test_a_worker_computes_its_own_examples_only() -> None:
    computed: list[int] = []

    def seen(x: Any) -> Any:
        return tf.py_function(lambda v: computed.append(int(v)) or v, [x], tf.int64)

    plan = DataPlan.from_arrays(np.arange(32)).shuffle(seed=5).map(seen).batch(8)
    assert len(list(lower(by_batch(plan, 4, 1)))) == 4
    assert len(computed) == len(set(computed)) == 8


@pytest.mark.tensorflow
def test_examples_are_left_out_before_the_maps_that_the_batch_follows() -> None:
    plan = by_batch(numbers(64, 16).prefetch(), 2, 1)
    assert kinds(plan) == [
        "source", "shuffle", "part_of_examples", "map_examples", "batch", "prefetch",
    ]  # fmt: skip
    assert [stage.describe() for stage in plan.stages][2:5:2] == [
        "part of every 16 examples: 2 of 2 workers", "batch: 8 of 16",
    ]  # fmt: skip


def lengths(x: Any) -> Any:
    return tf.range(x)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("why", "plan"),
    [
        ("nothing is computed", lambda: numbers(64, 16, mapped=False)),
        ("a map of batches needs all rows", lambda: numbers(64, 16).map(lambda x, y: (x, y))),
        ("a worker's last batch would be empty", lambda: numbers(49, 16)),
        ("the number of examples is unknown", lambda: DataPlan.from_arrays(np.arange(64))
            .filter(lambda x: x > 3).map(lambda x: x).batch(16)),
        ("examples differ in length", lambda: DataPlan.from_arrays(np.arange(64)).map(lengths)
            .cache().map(lambda x: x[:1]).batch(16)),
        ("a map that remembers its results", lambda: numbers(64, 16).replace(
            2, MapExamples(function=lambda x: x, deterministic=True, kept_bytes=8.0))),
    ],
)  # fmt: skip
def test_else_each_whole_batch_is_cut(why: str, plan: Any) -> None:
    shared = by_batch(plan(), 2, 0)
    assert shared.stages[-1].kind == "part_of_batch", why
    assert not any(isinstance(stage, PartOfExamples) for stage in shared.stages)


def unordered(ordered: bool) -> DataPlan:
    """A parallel map before the shuffle, so that its order decides which examples meet."""
    stage = MapExamples(function=lambda x: x, deterministic=True, parallel=2, ordered=ordered)
    return numbers(8, 4, mapped=False).insert(1, stage)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (unordered(False), "in any order, and workers"),
        (numbers(8, 4).replace(1, Shuffle(seed=(0, 0))), "draws a new seed on each"),
    ],
)
def test_what_is_in_another_order_on_each_worker_is_refused(plan: DataPlan, said: str) -> None:
    with pytest.raises(PluginRefused, match=rf'{said}.*set shard = "source"'):
        by_batch(plan, 2, 0)


@pytest.mark.tensorflow
def test_parts_of_a_source_are_looked_into_too() -> None:
    part = DataPlan.from_arrays(np.arange(8)).with_stages(
        (*DataPlan.from_arrays(np.arange(8)).stages, Shuffle(seed=(0, 0)))
    )
    zipped = Plan((Source(value=(part, part), origin="zip", count=8),)).batch(4)
    with pytest.raises(PluginRefused, match="draws a new seed"):
        by_source(zipped, 2, 0)


def test_a_pydataset_is_refused_and_off_leaves_the_data_alone() -> None:
    source = Source(value=None, origin="pydataset", count=4, batched=True, deterministic=False)
    plan = Plan((source,))
    with pytest.raises(
        PluginRefused, match=r'give a tf\.data.Dataset or arrays, or set shard = "off"'
    ):
        shared_plan(plan, "batch", 2, 0)
    assert shared_plan(plan, "off", 2, 0) is plan
    assert shared_plan(plan, "batch", 1, 0) is plan
    assert in_words(plan) == ""


@pytest.mark.parametrize(
    ("plan", "workers", "said"),
    [
        (numbers(30, 9), 2, "batches of 9 cannot be shared out evenly among 2 workers"),
        (numbers(3, 4), 4, "3 examples, too few for 4 workers"),
        (DataPlan.from_generator(lambda: iter(())).batch(4), 2, "assert_cardinality"),
        (DataPlan.from_arrays(np.arange(4)).apply(lambda d: d.batch(2)), 2, 'shard = "batch"'),
    ],
)
def test_a_source_that_cannot_be_shared_out_evenly_is_refused(plan, workers, said):
    with pytest.raises(PluginRefused, match=said):
        by_source(plan, workers, 0)


def test_the_source_is_shared_out_behind_what_chooses_examples() -> None:
    plan = DataPlan.from_arrays(np.arange(20)).take(8).map(lambda x: x).batch(4)
    shared = by_source(plan, 2, 1)
    assert kinds(shared) == [
        "source", "take", "part_of_source", "map_examples", "batch", "even_steps",
    ]  # fmt: skip
    assert in_words(shared) == "part of the source: 2 of 2 workers"
    assert (shared.examples, shared.cardinality) == (8, 2)


CHANGES: dict[str, Any] = {
    "repeat": lambda plan, n: plan.repeat(1 + n % 3),
    "take": lambda plan, n: plan.take(n),
    "skip": lambda plan, n: plan.append(Skip(count=n % 5)),
    "shard": lambda plan, n: plan.append(Shard(count=2, index=n % 2)),
    "shuffle": lambda plan, n: plan.shuffle(n, seed=n),
    "map": lambda plan, n: plan.map(lambda x: x, deterministic=True),
    "cache": lambda plan, n: plan.cache(),
    "prefetch": lambda plan, n: plan.append(Prefetch(buffer_size=1, inside=True)),
}
changes = st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(1, 12)), max_size=4)


def changed(plan: DataPlan, by: list[tuple[str, int]]) -> DataPlan:
    for name, n in by:
        plan = CHANGES[name](plan, n)
    return plan


@pytest.mark.thorough
@pytest.mark.tensorflow
@few_examples(40)
@example(count=5, part=2, workers=2, drop=False, before=[("repeat", 2)], behind=[])
@example(count=5, part=2, workers=2, drop=False, before=[], behind=[("repeat", 2), ("take", 3)])
@example(count=7, part=2, workers=2, drop=True, before=[], behind=[("repeat", 1)])
# a worker that stopped reading at its last batch never filled its cache, and shuffled anew
@example(
    count=8, part=1, workers=2, drop=False, behind=[],
    before=[("shuffle", 8), ("cache", 1), ("shard", 1)],
)  # fmt: skip
@given(
    count=st.integers(1, 24),
    part=st.integers(1, 3),
    workers=st.integers(2, 3),
    drop=st.booleans(),
    before=changes,
    behind=changes.filter(lambda by: "shuffle" not in dict(by)),
)
def test_shares_hold_what_one_device_reads_whatever_repeats_or_chooses_it(
    count: int, part: int, workers: int, drop: bool, before: Any, behind: Any
) -> None:  # fmt: skip
    whole = changed(DataPlan.from_arrays(np.arange(count)), before)
    assume((whole.cardinality or 0) >= workers)
    # of a worker's own shuffle other examples are dropped than of that of one device
    choosing = drop or {"take", "skip", "shard"} & set(dict(behind))
    assume(not (choosing and "shuffle" in dict(before)))
    whole = changed(whole.batch(part * workers, drop_remainder=drop), behind)
    assume(whole.cardinality)
    shared = [by_source(whole, workers, rank) for rank in range(workers)]
    alone, parts = epochs_of(whole), [epochs_of(plan) for plan in shared]
    for own, epoch in zip(alone, put_together(parts), strict=True):
        assert len(epoch) == len(own) == whole.cardinality
        assert sorted(itertools.chain(*epoch)) == sorted(itertools.chain(*own))


@pytest.mark.parametrize(
    "plan",
    [
        DataPlan.from_arrays(np.arange(8)).batch(4).append(Unbatch()).batch(4),
        DataPlan.from_arrays(np.arange(8)).append(Window(size=2)).batch(4),
        DataPlan.from_arrays(np.arange(8)).append(EvenSteps(batches=3)).batch(4),
    ],
)
def test_a_stage_that_makes_other_elements_of_a_part_is_refused(plan: DataPlan) -> None:
    with pytest.raises(PluginRefused, match=r'another number of elements.*set shard = "batch"'):
        by_source(plan, 2, 0)


def test_a_shuffle_without_a_seed_before_the_share_of_the_source_is_refused() -> None:
    plan = numbers(8, 4, mapped=False).replace(1, Shuffle(seed=(0, 0))).insert(2, Take(count=4))
    with pytest.raises(PluginRefused, match=r"examples twice; give it a seed or ordered results$"):
        by_source(plan, 2, 0)


def test_a_data_service_behind_a_share_of_the_source_leaves_the_steps_even() -> None:
    plan = by_source(numbers(30, 8), 2, 0)
    served = with_service(plan, lambda dataset: dataset, divided=False)
    assert kinds(served.plan)[-3:] == ["batch", "opaque", "even_steps"]


def test_a_data_service_behind_parts_of_batches_stands_back() -> None:
    whole = numbers(30, 8)
    parts: tuple[Any, ...] = (
        PartOfBatch(count=2, index=0), PartOfExamples(count=2, index=0, of=8),
        PartOfSource(count=2, index=0),
    )  # fmt: skip
    for part in parts:
        assert "would choose other examples" in chosen_otherwise([part])
    served = with_service(whole.append(parts[0]), lambda dataset: dataset, divided=False)
    assert served.plan.find(EvenSteps) is None
    assert "without its seed" in served.reason
