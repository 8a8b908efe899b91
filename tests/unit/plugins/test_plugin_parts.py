"""Parts of the data for several workers: together they are the whole, batch by batch."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.compared import plain
from support.lazy_modules import tf
from tfopt_distribute.sharing import PartOfBatch, PartOfExamples, PartOfSource

from tfopt_core.data import Batch, DataPlan, EvenSteps, Filter, Unbatch, rows_of
from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError


def numbers(count, *stages):
    source = DataPlan.from_arrays(np.arange(count)).source
    return DataPlan((source, *stages))


def batches(plan):
    return [plain(batch) for batch in lower(plan)]


@given(st.integers(0, 40), st.integers(1, 9))
def test_the_rows_of_all_workers_are_the_batch_in_its_order(rows, count):
    parts = [rows_of(rows, count, index) for index in range(count)]
    assert parts[0][0] == 0
    assert parts[-1][1] == rows
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(parts))
    assert max(e - b for b, e in parts) - min(e - b for b, e in parts) <= 1


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_a_plan_of_a_part_counts_its_own_elements_and_everybodys_examples(n, of, count, drop):
    mine = []
    for index in range(count):
        chosen = PartOfExamples(count=count, index=index, of=of, drop_remainder=drop)
        plan = numbers(n, chosen, Batch(size=3, of=of))
        assert (plan.examples, plan.batch_size) == (n, of)
        mine.append(plan.upto(2).cardinality)
        assert numbers(n, PartOfSource(count=count, index=index)).cardinality == len(
            range(n)[index::count]
        )
    assert sum(mine) == (n // of * of if drop else n)


def test_after_a_part_of_a_batch_the_batches_and_examples_of_all_are_counted():
    plan = numbers(10, Batch(size=4), PartOfBatch(count=2, index=1))
    assert (plan.examples, plan.batch_size, plan.cardinality) == (10, 4, 3)
    assert plan.append(Unbatch()).cardinality is None
    assert numbers(9, PartOfSource(count=2, index=0), Filter(function=bool)).examples is None
    assert numbers(9, Batch(size=2), EvenSteps(batches=7)).cardinality == 7


@pytest.mark.tensorflow
@few_examples(20)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 4), st.booleans())
def test_parts_of_batches_put_together_are_the_batches(n, size, count, drop):
    whole = numbers(n, Batch(size=size, drop_remainder=drop))
    parts = [batches(whole.append(PartOfBatch(count=count, index=i))) for i in range(count)]
    assert [list(itertools.chain(*rows)) for rows in zip(*parts, strict=True)] == batches(whole)
    assert batches(whole.append(PartOfBatch(count=count, index=None))) == batches(whole)


@pytest.mark.tensorflow
@few_examples(20)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 4), st.booleans())
def test_parts_of_examples_are_the_rows_of_the_batches_and_their_number_is_known(
    n, of, count, drop
):
    for index in range(count):
        chosen = PartOfExamples(count=count, index=index, of=of, drop_remainder=drop)
        plan = numbers(n, chosen)
        cut = numbers(n, Batch(size=of, drop_remainder=drop), PartOfBatch(count=count, index=index))
        assert batches(plan) == list(itertools.chain(*batches(cut)))
        assert int(lower(plan).cardinality()) == plan.cardinality
    whole = numbers(n, PartOfExamples(count=count, index=None, of=of, drop_remainder=drop))
    assert batches(whole) == list(range(n // of * of if drop else n))


@pytest.mark.tensorflow
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


@pytest.mark.tensorflow
def test_a_batch_of_known_size_has_parts_of_known_size():
    whole = numbers(8, Batch(size=4, drop_remainder=True), PartOfBatch(count=2, index=0))
    assert lower(whole).element_spec.shape.as_list() == [2]


@pytest.mark.tensorflow
def test_what_has_no_rows_is_refused():
    numbered = tf.data.Dataset.range(4).batch(2).enumerate()
    with pytest.raises(WorkloadError, match="a single int64, which has no rows"):
        lower(DataPlan.from_dataset(numbered).append(PartOfBatch(count=2, index=0)))


@pytest.mark.tensorflow
def test_even_steps_cut_off_or_append_empty_batches_of_the_same_kind():
    plan = DataPlan.from_arrays(np.ones((5, 3), "float32"), np.arange(5)).batch(2)
    longer = lower(plan.append(EvenSteps(batches=5)))
    assert [(len(x), len(y)) for x, y in longer] == [(2, 2), (2, 2), (1, 1), (0, 0), (0, 0)]
    assert int(longer.cardinality()) == 5
    assert longer.element_spec == lower(plan).element_spec
    assert [len(x) for x, _ in lower(plan.append(EvenSteps(batches=1)))] == [2]
