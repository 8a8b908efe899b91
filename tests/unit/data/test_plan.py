"""The data plan as data, and how many elements it yields: no TensorFlow."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core import data as stages
from tfopt_core.data import Cache, DataPlan, MapBatches, MapExamples, Window
from tfopt_core.data.batching import Batch, Unbatch
from tfopt_core.data.functions import Filter
from tfopt_core.data.stages import Repeat, Shard, Shuffle, Skip, Take


def double(x):
    return 2 * x


PLAN = DataPlan.from_arrays([1, 2, 3]).map(double).shuffle(seed=1).batch(2)


def test_a_map_after_a_batch_is_a_map_of_batches():
    assert isinstance(PLAN.stages[1], MapExamples)
    assert isinstance(PLAN.map(double).stages[-1], MapBatches)


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths: \[1, 2\]"):
        DataPlan.from_arrays([1, 2], [1])


def test_an_iterator_is_refused_since_it_can_be_read_only_once():
    with pytest.raises(TypeError, match="give the function that makes it"):
        DataPlan.from_generator(iter([1]))


def test_nothing_stands_before_the_source():
    with pytest.raises(ValueError, match="before the source"):
        PLAN.insert(0, Cache())


def test_a_change_is_described_stage_by_stage():
    cached = PLAN.insert(2, Cache())
    assert cached.describe_change(PLAN) == ("cache: in memory, after map_examples",)
    assert PLAN.describe_change(cached) == ("without cache: in memory",)
    wider = PLAN.replace(3, Batch(size=8))
    assert wider.describe_change(PLAN) == ("batch: 2 -> batch: 8",)
    assert PLAN.describe_change(PLAN) == ()


def test_a_plan_describes_itself_in_the_order_of_its_stages():
    assert PLAN.describe() == (
        "source: arrays, 3 examples",
        "map_examples: double (sequential)",
        "shuffle: all examples, anew each epoch",
        "batch: 2",
    )


def test_a_reshuffling_shuffle_is_not_deterministic_and_a_seeded_still_one_is():
    assert not Shuffle(seed=1).deterministic
    assert not Shuffle(reshuffle=False).deterministic
    assert Shuffle(seed=1, reshuffle=False).deterministic


def plan(count, *behind):
    return DataPlan.from_arrays(list(range(count))).with_stages(
        (DataPlan.from_arrays(list(range(count))).source, *behind)
    )


def listed(elements, stage):
    """What Python's lists say of a stage; None for a function."""
    match stage:
        case Batch(size=size, drop_remainder=drop):
            batches = [elements[i : i + size] for i in range(0, len(elements), size)]
            return [batch for batch in batches if len(batch) == size or not drop]
        case Unbatch():
            return [example for batch in elements for example in batch]
        case Take(count=count):
            return elements if count < 0 else elements[:count]
        case Skip(count=count):
            return [] if count < 0 else elements[count:]
        case Shard(count=count, index=index):
            return elements[index::count]
        case Repeat(count=count):
            return elements * count
        case Window(size=size, shift=shift, stride=stride, drop_remainder=drop):
            shift = size if shift is None else shift
            windows = [
                elements[i : i + size * stride : stride] for i in range(0, len(elements), shift)
            ]
            return [window for window in windows if len(window) == size or not drop]
    return elements


number = st.integers(1, 5)
selecting = st.one_of(
    st.builds(Take, count=st.integers(-1, 9)),
    st.builds(Skip, count=st.integers(-1, 5)),
    st.builds(Shard, count=st.just(3), index=st.integers(0, 2)),
    st.builds(Repeat, count=st.integers(0, 3)),
    st.just(Shuffle(seed=1)),
)


@given(
    st.integers(0, 20),
    st.lists(selecting, max_size=3),
    st.one_of(
        st.builds(Window, size=number, shift=number, stride=number, drop_remainder=st.booleans()),
        st.builds(Batch, size=number, drop_remainder=st.booleans()),
    ),
    st.lists(selecting, max_size=2),
)
def test_elements_are_counted_as_lists_would_be(count, before, putting, after):
    elements = list(range(count))
    for stage in (*before, putting, *after):
        elements = listed(elements, stage)
    assert plan(count, *before, putting, *after).cardinality == len(elements)


@given(st.integers(0, 20), number, st.booleans(), st.integers(1, 3))
def test_examples_out_of_batches_are_counted_as_far_as_they_can_be(count, size, drop, times):
    batch = Batch(size=size, drop_remainder=drop)
    again = plan(count, batch, Repeat(count=times), Shuffle(seed=1), Unbatch())
    whole = count // size * size if drop else count
    assert again.cardinality == again.examples == whole * times
    # a function of a batch may leave some of it out, and a part of the batches may be any part
    for between in (MapBatches(function=len), Take(count=1)):
        assert plan(count, batch, between, Unbatch()).cardinality is None


@pytest.mark.parametrize(
    ("behind", "batched"),
    [
        ((stages.RaggedBatch(size=2), Shuffle(seed=1)), True),
        ((Batch(size=2), Unbatch()), False),
        ((Batch(size=2), Unbatch(), Batch(size=3)), True),
        ((Window(size=2), stages.Interleave(function=list)), False),
    ],
)
def test_it_is_known_whether_batches_come_out(behind, batched):
    assert plan(8, *behind).batched is batched


def test_what_a_function_decides_is_not_counted():
    for stage in (Filter(function=bool), stages.TakeWhile(function=bool),
                  stages.Interleave(function=list), stages.Opaque(function=list)):  # fmt: skip
        assert plan(8, stage).examples is None
        assert plan(8, Batch(size=2), stage).examples == 8
        assert plan(8, Batch(size=2), stage).cardinality is None
    assert plan(8, Repeat()).cardinality is None
    assert plan(8, Batch(size=3)).cardinality == math.ceil(8 / 3)


@pytest.mark.parametrize(
    ("behind", "index"),
    [
        ((stages.MapExamples(function=len), Shuffle(seed=1), Batch(size=2)), 1),
        ((stages.Interleave(function=list), stages.MapExamples(function=len)), 2),
        ((Batch(size=2), Unbatch(), Shuffle(seed=1), Batch(size=3)), 3),
        ((Shuffle(seed=1), Batch(size=3), stages.Interleave(function=list)), 1),
    ],
)
def test_the_first_examples_are_chosen_as_early_as_they_exist(behind, index):
    few = plan(8, *behind).first(3)
    assert isinstance(few.stages[index], Take)
    assert len(few.stages) == len(behind) + 2
