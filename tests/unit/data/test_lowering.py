"""From plans to tf.data: the same elements, the very same object where nothing changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.compared import elements
from support.lazy_modules import tf
from support.small_workloads import pydataset

from tfopt_core.data import Batch, DataPlan, Shuffle, batching
from tfopt_core.data import lower as lowering
from tfopt_core.data.anatomy import tensor_bytes
from tfopt_core.data.dissect.walk import known_cardinality
from tfopt_core.data.lower import lower
from tfopt_core.data.resident import DeviceRows
from tfopt_core.errors import WorkloadError
from tfopt_core.training.input.sources import as_plan, batched_plan


def test_a_generator_is_read_anew_each_epoch_and_its_shapes_are_learned():
    def ragged():
        yield np.zeros(2, "float32"), 0
        yield np.zeros(3, "float32"), 1

    dataset = lower(DataPlan.from_generator(ragged))
    assert [len(list(dataset)) for _ in range(2)] == [2, 2]
    assert dataset.element_spec[0].shape.as_list() == [None]


def test_a_pydataset_stays_itself_until_a_plugin_changes_it():
    data = pydataset(*((np.zeros((size, 3), "float32"), np.zeros(size)) for size in (2, 1)))
    plan = DataPlan.from_pydataset(data)
    assert lower(plan) is data
    assert [len(x) for x, _ in elements(plan.prefetch())] == [2, 1]
    assert known_cardinality(lower(plan.prefetch())) == 2


def batched(data, split="train", **changes):
    plain = {"batch_size": 2, "explicit": True, "shuffle": True, "seed": 1}
    return batched_plan(as_plan(data, split), split, **{**plain, **changes})


def test_arrays_are_shuffled_at_their_source_and_batched():
    plan = batched((np.arange(5), np.arange(5)))
    assert [stage.kind for stage in plan.stages] == ["source", "shuffle", "batch"]
    flat = [x for xs, _ in elements(plan) for x in xs]
    assert sorted(flat) == list(range(5))


def test_each_epoch_has_another_order_and_the_same_seed_the_same_orders():
    first, second = batched(np.arange(50)), batched(np.arange(50))
    one, two = lower(first), lower(second)
    epochs = [[b.numpy().tolist() for b in one] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert epochs == [[b.numpy().tolist() for b in two] for _ in range(2)]


def test_validation_data_keep_their_order():
    assert [stage.kind for stage in batched(np.arange(5), "validation").stages] == [
        "source", "batch",
    ]  # fmt: skip


def test_batched_data_beside_a_batch_size_are_an_error_that_says_so():
    dataset = tf.data.Dataset.range(4).batch(2)
    with pytest.raises(WorkloadError, match="batched already"):
        batched(dataset)
    assert lower(batched(dataset, explicit=False)) is dataset


def test_a_data_set_is_shuffled_as_it_comes_whatever_is_known_of_it():
    """What is measured against is the same as before data sets were taken apart."""
    given = tf.data.Dataset.from_tensor_slices(np.arange(50)).map(lambda x: x + 1)
    given = given.shuffle(5, seed=3).prefetch(2)
    plan = batched(given, seed=4)
    assert [stage.kind for stage in plan.lowering_order()] == [
        "source", "map_examples", "shuffle", "prefetch", "shuffle", "batch",
    ]  # fmt: skip
    assert len(list(lower(plan))) == 25
    assert lower(plan)._input_dataset._input_dataset is given


@pytest.mark.parametrize("drop", [False, True])
def test_arrays_are_gathered_by_index_in_the_order_of_their_examples(monkeypatch, drop):
    x = {"a": np.arange(50.0), "b": np.arange(100).reshape(50, 2)}
    plan = DataPlan.from_arrays(x, np.arange(50)).append(Shuffle(seed=5))
    plan = plan.append(Batch(size=16, drop_remainder=drop))

    def epochs():
        dataset = lower(plan)
        read = [[(b[0]["b"].numpy().tolist(), b[1].numpy().tolist()) for b in dataset]
                for _ in range(3)]  # fmt: skip
        return read, dataset.element_spec, int(dataset.cardinality())

    by_index = epochs()
    assert batching.gathered(plan.lowering_order(), static=True) is not None
    monkeypatch.setattr(lowering, "gathered", lambda stages, static: None)
    assert by_index == epochs()


@pytest.mark.parametrize("size", [16, 10])
@pytest.mark.parametrize("stages", [(Shuffle(seed=5),), ()], ids=["gathered", "sliced"])
def test_batches_have_a_static_size_where_the_examples_fill_them(size, stages):
    plan = DataPlan.from_arrays(np.arange(50))
    for stage in (*stages, Batch(size=size)):
        plan = plan.append(stage)
    batches = list(lower(plan))
    assert lower(plan).element_spec.shape[0] == {16: None, 10: 10}[size]
    assert sorted(np.concatenate(batches)) == list(range(50))


def test_a_data_set_of_the_workloads_own_keeps_its_shapes():
    """No plugin that has its batches built again is credited for static ones."""
    plan = DataPlan.from_dataset(tf.data.Dataset.range(50).batch(10))
    plan = plan.insert(1, Shuffle(seed=5))
    assert lower(plan).element_spec.shape[0] is None


def test_a_plan_can_be_lowered_within_a_graph():
    """As parameter servers do."""
    plan = DataPlan.from_arrays(np.arange(50)).append(Batch(size=10))
    assert int(tf.function(lambda: lower(plan).reduce(0, lambda n, batch: n + 1))()) == 5


def test_all_kinds_of_tensors_have_bytes():
    assert tensor_bytes(tf.zeros((2, 3), tf.float16)) == 12
    assert tensor_bytes(tf.constant(["ab", "c"])) == 3
    assert tensor_bytes(tf.ragged.constant([[1, 2], [3]], tf.int32)) == 3 * 4 + 3 * 8
    assert tensor_bytes(tf.sparse.from_dense([[0, 1]])) == 2 * 8 + 4 + 2 * 8


KINDS = (
    "bool",
    "float32",
    "int64",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)


@given(
    kind=st.sampled_from(KINDS), shape=st.lists(st.integers(0, 5), max_size=3),
    rows=st.lists(st.integers(0, 6), max_size=5), seed=st.integers(0, 99),
)  # fmt: skip
def test_the_rows_of_a_gpu_are_those_of_the_tensor(kind, shape, rows, seed):
    high = 2 if kind == "bool" else 100
    values = np.random.default_rng(seed).integers(0, high, (7, *shape)).astype(kind)
    rows_of = DeviceRows(tf.constant(values), on_gpu=True)
    found = rows_of.form.gather(rows_of.held, tf.constant(rows, tf.int64))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, values[np.array(rows, int)])


@pytest.mark.parametrize("kind", ["int32", "uint8"])
def test_what_a_gpu_cannot_gather_in_place_is_held_as_words_there(kind):
    values = np.arange(42).reshape(7, 6).astype(kind)
    assert DeviceRows(tf.constant(values), on_gpu=True).held.dtype == tf.float32
    assert DeviceRows(tf.constant(values), on_gpu=False).held.dtype == kind


@pytest.mark.parametrize("size", [None, 3])
def test_the_shape_of_a_batch_is_known_as_far_as_its_indices_are(size):
    rows_of = DeviceRows(tf.zeros((7, 3, 5), tf.uint8), on_gpu=True)
    held, rows = tf.TensorSpec.from_tensor(rows_of.held), tf.TensorSpec([size], tf.int64)
    traced = tf.function(rows_of.form.gather).get_concrete_function(held, rows)
    assert traced.structured_outputs.shape.as_list() == [size, 3, 5]
