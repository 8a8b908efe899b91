"""Data shared out among workers: together they train on what one device would."""

import itertools

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
    Batch,
    EvenSteps,
    Filter,
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
from tfopt_core.errors import WorkloadError
from tfopt_core.plugins import PluginRefused

EPOCHS = 3


def numbers(count, size, *, drop=False, mapped=True):
    """Ids in a new order each epoch, in pairs with what a map makes of them."""
    plan = DataPlan.from_arrays(np.arange(count)).shuffle(seed=5)
    if mapped:
        plan = plan.map(lambda x: (x, x * 10), deterministic=True)
    return plan.batch(size, drop_remainder=drop)


def in_order(count):
    return DataPlan.from_arrays(np.arange(count))


def epochs_of(plan):
    """The ids of every batch, epoch by epoch."""

    def ids(batch):
        return [int(x) for x in (batch[0] if isinstance(batch, tuple) else batch)]

    dataset = lower(plan)
    return [[ids(batch) for batch in dataset] for _ in range(EPOCHS)]


def put_together(parts):
    """The global batches of every epoch out of those of all workers."""
    return [
        [list(itertools.chain(*rows)) for rows in zip(*epoch, strict=True)]
        for epoch in zip(*parts, strict=True)
    ]


@few_examples(30)
@given(
    count=st.integers(1, 40),
    size=st.integers(1, 12),
    workers=st.integers(2, 4),
    drop=st.booleans(),
    mapped=st.booleans(),
)
def test_the_parts_of_all_workers_are_the_batches_of_one_device_in_every_epoch(
    count, size, workers, drop, mapped
):
    whole = numbers(count, size, drop=drop, mapped=mapped)
    shared = [by_batch(whole, workers, rank) for rank in range(workers)]
    alone, parts = epochs_of(whole), [epochs_of(plan) for plan in shared]
    assert put_together(parts) == alone
    assert epochs_of(by_batch(whole, workers, None)) == alone
    rows = [[len(batch) for batch in epochs[0]] for epochs in parts]
    full = [shares for shares in zip(*rows, strict=True) if sum(shares) == size]
    assert all(max(shares) - min(shares) <= 1 for shares in full)
    for plan in (*shared, by_batch(whole, workers, None)):
        assert (plan.examples, plan.batch_size, plan.cardinality) == (count, size, len(alone[0]))
        assert int(lower(plan).cardinality()) == len(alone[0])


def test_a_worker_computes_its_own_examples_only():
    computed = []

    def seen(x):
        return tf.py_function(lambda v: computed.append(int(v)) or v, [x], tf.int64)

    plan = in_order(32).shuffle(seed=5).map(seen).batch(8)
    assert len(list(lower(by_batch(plan, 4, 1)))) == 4
    assert len(computed) == len(set(computed)) == 8


def test_examples_are_left_out_before_the_maps_that_the_batch_follows():
    plan = by_batch(numbers(64, 16).prefetch(), 2, 1)
    assert kinds(plan) == [
        "source", "shuffle", "part_of_examples", "map_examples", "batch", "prefetch",
    ]  # fmt: skip
    assert [stage.describe() for stage in plan.stages][2:5:2] == [
        "part of every 16 examples: 2 of 2 workers", "batch: 8 of 16",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "plan"),
    [
        ("nothing is computed", lambda: numbers(64, 16, mapped=False)),
        ("a map of batches needs all rows", lambda: numbers(64, 16).map(lambda x, y: (x, y))),
        ("a worker's last batch would be empty", lambda: numbers(49, 16)),
        ("the number of examples is unknown",
         lambda: in_order(64).filter(lambda x: x > 3).map(lambda x: x).batch(16)),
        ("examples differ in length",
         lambda: in_order(64).map(lambda x: tf.range(x)).cache().map(lambda x: x[:1]).batch(16)),
        ("a map that remembers its results", lambda: numbers(64, 16).replace(
            2, MapExamples(function=lambda x: x, deterministic=True, kept_bytes=8.0))),
    ],
)  # fmt: skip
def test_else_each_whole_batch_is_cut(why, plan):
    shared = by_batch(plan(), 2, 0)
    assert shared.stages[-1].kind == "part_of_batch", why
    assert not any(isinstance(stage, PartOfExamples) for stage in shared.stages)


def test_after_a_part_of_a_batch_the_batches_and_examples_of_all_are_counted():
    plan = in_order(10).append(Batch(size=4)).append(PartOfBatch(count=2, index=1))
    assert (plan.examples, plan.batch_size, plan.cardinality) == (10, 4, 3)
    assert plan.append(Unbatch()).cardinality is None
    part = in_order(9).append(PartOfSource(count=2, index=0))
    assert part.append(Filter(function=bool)).examples is None
    assert in_order(9).append(Batch(size=2)).append(EvenSteps(batches=7)).cardinality == 7


def test_every_kind_of_tensor_is_cut_by_rows_and_none_stays_none():
    def every_kind(x):
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(x), tf.reshape(x, [1]))
        return {"row": tf.fill([2], x), "ragged": ragged, "sparse": tf.sparse.from_dense([x])}

    whole = DataPlan.from_arrays(np.arange(1, 6)).map(every_kind).batch(5)
    parts = [lower(whole.append(PartOfBatch(count=2, index=i))) for i in range(2)]
    first, second = (next(iter(part)) for part in parts)
    assert first["row"].numpy().tolist() == [[1, 1], [2, 2]]
    assert second["row"].numpy().tolist() == [[3, 3], [4, 4], [5, 5]]
    assert second["ragged"].to_list() == [[[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1, 2, 3, 4]]]
    dense = [tf.sparse.to_dense(part["sparse"]).numpy().tolist() for part in (first, second)]
    assert dense == [[[1], [2]], [[3], [4], [5]]]
    weightless = tf.data.Dataset.range(4).batch(4).map(lambda x: (x, None))
    part = DataPlan.from_dataset(weightless).append(PartOfBatch(count=2, index=0))
    assert next(iter(lower(part)))[1] is None


def test_a_batch_of_known_size_has_parts_of_known_size():
    whole = in_order(8).append(Batch(size=4, drop_remainder=True))
    part = lower(whole.append(PartOfBatch(count=2, index=0)))
    assert part.element_spec.shape.as_list() == [2]


def test_what_has_no_rows_is_refused():
    numbered = tf.data.Dataset.range(4).batch(2).enumerate()
    with pytest.raises(WorkloadError, match="a single int64, which has no rows"):
        lower(DataPlan.from_dataset(numbered).append(PartOfBatch(count=2, index=0)))


def test_even_steps_cut_off_or_append_empty_batches_of_the_same_kind():
    plan = DataPlan.from_arrays(np.ones((5, 3), "float32"), np.arange(5)).batch(2)
    longer = lower(plan.append(EvenSteps(batches=5)))
    assert [(len(x), len(y)) for x, y in longer] == [(2, 2), (2, 2), (1, 1), (0, 0), (0, 0)]
    assert int(longer.cardinality()) == 5
    assert longer.element_spec == lower(plan).element_spec
    assert [len(x) for x, _ in lower(plan.append(EvenSteps(batches=1)))] == [2]


UNSEEDED = numbers(8, 4, mapped=False).replace(1, Shuffle(seed=(0, 0)))
# A parallel map before the shuffle, whose order decides which examples meet.
ANY_ORDER = numbers(8, 4, mapped=False).insert(
    1, MapExamples(function=lambda x: x, deterministic=True, parallel=2, ordered=False)
)
PART = in_order(8).append(Shuffle(seed=(0, 0)))
TAKE_SOURCE, TAKE_BATCH = r'.*set shard = "source"', r'.*set shard = "batch"'


@pytest.mark.parametrize(
    ("share", "plan", "workers", "said"),
    [
        (by_batch, ANY_ORDER, 2, f"in any order, and workers{TAKE_SOURCE}"),
        (by_batch, UNSEEDED, 2, f"draws a new seed on each{TAKE_SOURCE}"),
        (by_source, DataPlan((Source(value=(PART, PART), origin="zip", count=8),)).batch(4), 2,
         "draws a new seed"),
        (by_source, UNSEEDED.insert(2, Take(count=4)), 2,
         "examples twice; give it a seed or ordered results$"),
        (by_source, numbers(30, 9), 2, "batches of 9 cannot be shared out evenly among 2 workers"),
        (by_source, numbers(3, 4), 4, "3 examples, too few for 4 workers"),
        (by_source, DataPlan.from_generator(lambda: iter(())).batch(4), 2, "assert_cardinality"),
        (by_source, in_order(4).apply(lambda d: d.batch(2)), 2, 'shard = "batch"'),
        (by_source, in_order(8).batch(4).append(Unbatch()).batch(4), 2,
         f"another number of elements{TAKE_BATCH}"),
        (by_source, in_order(8).append(Window(size=2)).batch(4), 2,
         f"another number of elements{TAKE_BATCH}"),
        (by_source, in_order(8).append(EvenSteps(batches=3)).batch(4), 2,
         f"another number of elements{TAKE_BATCH}"),
    ],
)  # fmt: skip
def test_what_workers_would_not_read_as_one_device_does_is_refused(share, plan, workers, said):
    with pytest.raises(PluginRefused, match=said):
        share(plan, workers, 0)


def test_a_pydataset_is_refused_and_off_leaves_the_data_alone():
    source = Source(value=None, origin="pydataset", count=4, batched=True, deterministic=False)
    plan = DataPlan((source,))
    with pytest.raises(
        PluginRefused, match=r'give a tf\.data.Dataset or arrays, or set shard = "off"'
    ):
        shared_plan(plan, "batch", 2, 0)
    assert shared_plan(plan, "off", 2, 0) is plan
    assert shared_plan(plan, "batch", 1, 0) is plan
    assert in_words(plan) == ""


def test_the_source_is_shared_out_behind_what_chooses_examples():
    plan = in_order(20).take(8).map(lambda x: x).batch(4)
    shared = by_source(plan, 2, 1)
    assert kinds(shared) == [
        "source", "take", "part_of_source", "map_examples", "batch", "even_steps",
    ]  # fmt: skip
    assert in_words(shared) == "part of the source: 2 of 2 workers"
    assert (shared.examples, shared.cardinality) == (8, 2)


CHANGES = {
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


def changed(plan, by):
    for name, n in by:
        plan = CHANGES[name](plan, n)
    return plan


@pytest.mark.thorough
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
    count, part, workers, drop, before, behind
):
    whole = changed(in_order(count), before)
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


def test_a_data_service_behind_a_share_of_the_source_leaves_the_steps_even():
    plan = by_source(numbers(30, 8), 2, 0)
    served = with_service(plan, lambda dataset: dataset, divided=False)
    assert kinds(served.plan)[-3:] == ["batch", "opaque", "even_steps"]


def test_a_data_service_behind_parts_of_batches_stands_back():
    whole = numbers(30, 8)
    parts = (
        PartOfBatch(count=2, index=0), PartOfExamples(count=2, index=0, of=8),
        PartOfSource(count=2, index=0),
    )  # fmt: skip
    for part in parts:
        assert "would choose other examples" in chosen_otherwise([part])
    served = with_service(whole.append(parts[0]), lambda dataset: dataset, divided=False)
    assert served.plan.find(EvenSteps) is None
    assert "without its seed" in served.reason
