"""How many elements a plan yields, and of how many examples its batches are; no TensorFlow."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core import data as stages
from tfopt_core.data import DataPlan, MapBatches, Window
from tfopt_core.data.batching import Batch, Unbatch
from tfopt_core.data.functions import Filter
from tfopt_core.data.stages import Repeat, Shard, Shuffle, Skip, Take


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


def test_batches_count_as_batches_and_their_examples_as_examples():
    batched = plan(10, Batch(size=4))
    assert (batched.examples, batched.cardinality, batched.batch_size) == (10, 3, 4)
    assert batched.batched
    single = plan(10)
    assert (single.examples, single.cardinality, single.batch_size) == (10, 10, None)
    assert not single.batched


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
