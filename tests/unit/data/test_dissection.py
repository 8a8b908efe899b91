"""What comes apart, into what, and what stays in one piece."""

import functools
import gc
from pathlib import Path

import numpy as np
import pytest
from support.compared import epochs
from support.lazy_modules import tf

from tfopt_core import data as stages
from tfopt_core.data import DataPlan, Prefetch
from tfopt_core.data.dissect import walk
from tfopt_core.data.dissect.walk import TracedFunction, shuffled
from tfopt_core.data.functions import function_name, place_of
from tfopt_core.data.lower import lower, lower_stages


def dataset(count=6):
    return tf.data.Dataset.range(count)


def double(x):
    return x * 2


def is_even(x):
    return x % 2 == 0


def repeated(x):
    return tf.data.Dataset.from_tensors(x).repeat(2)


def as_vector(x):
    return tf.fill([x], x)


# (what is done to a range, the stage that it is, what that stage says)
STEPS = [
    (lambda d: d.map(double, num_parallel_calls=-1, deterministic=False), stages.MapExamples,
     {"parallel": "auto", "ordered": False}),
    (lambda d: d.batch(2).map(double), stages.MapBatches, {}),
    (lambda d: d.interleave(repeated, cycle_length=3, block_length=2), stages.Interleave,
     {"cycle_length": 3, "block_length": 2, "parallel": None}),
    (lambda d: d.interleave(repeated, num_parallel_calls=2, deterministic=True),
     stages.Interleave, {"cycle_length": None, "parallel": 2, "ordered": True}),
    (lambda d: d.shuffle(3, seed=5, reshuffle_each_iteration=False), stages.Shuffle,
     {"reshuffle": False, "deterministic": True}),
    (lambda d: d.prefetch(3), stages.Prefetch, {"buffer_size": 3, "inside": False}),
    (lambda d: d.map(as_vector).padded_batch(2, padding_values=np.int64(7)), stages.PaddedBatch,
     {"size": 2}),
    (lambda d: d.map(as_vector).ragged_batch(2, row_splits_dtype=tf.int32), stages.RaggedBatch,
     {"row_splits": "int32"}),
    (lambda d: d.window(3, shift=1, stride=2, drop_remainder=True), stages.Window,
     {"size": 3, "shift": 1, "stride": 2, "drop_remainder": True}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "said"), STEPS)
def test_each_step_is_a_stage_that_does_the_same_when_built_anew(make, kind, said):
    given = make(dataset())
    plan = DataPlan.from_dataset(given)
    last = plan.stages[-1]
    assert type(last) is kind
    assert {name: getattr(last, name) for name in said} == said
    assert plan.source.origin == "range"
    anew = lower_stages(plan.stages)
    assert anew is not given
    assert anew.element_spec == given.element_spec
    assert int(anew.cardinality()) == int(given.cardinality())
    if getattr(last, "ordered", True) is not False:
        assert epochs(anew.take(20)) == epochs(given.take(20))
    again = DataPlan.from_dataset(anew)
    assert [type(stage) for stage in again.stages] == [type(stage) for stage in plan.stages]


def sources(folder):
    fixed = folder / "a.bin"
    fixed.write_bytes(b"abcdef")
    slices, small = tf.data.Dataset.from_tensor_slices, dataset(3)
    ragged = tf.ragged.constant([[1], [], [2, 3]])
    return [
        (slices({"x": np.zeros((3, 2)), "y": (np.arange(3), ["a", "b", "c"])}), "arrays"),
        (tf.data.Dataset.from_tensors((ragged, 3)), "tensors"),
        (tf.data.Dataset.range(1, 9, 3, output_type=tf.int32), "range"),
        (tf.data.Dataset.zip({"a": small, "b": (small, small.batch(2))}), "zip"),
        (tf.data.FixedLengthRecordDataset(str(fixed), 2), "arrays"),
        (tf.data.Dataset.list_files(f"{folder}/a.*", seed=1), "arrays"),
    ]


def test_each_source_is_known_for_what_it_is(tmp_path):
    for given, origin in sources(tmp_path):
        plan = DataPlan.from_dataset(given)
        assert plan.source.origin == origin, given
        assert plan.source.deterministic
        anew = lower_stages(plan.stages)
        assert anew.element_spec == given.element_spec
        assert epochs(anew) == epochs(given)


def test_arrays_are_not_copied():
    tensor = tf.zeros((4, 2))
    plan = DataPlan.from_dataset(tf.data.Dataset.from_tensor_slices((tensor, tensor)))
    assert plan.source.value[0] is tensor


def test_many_data_sets_behind_each_other_do_not_nest():
    joined = dataset(2)
    for _ in range(300):
        joined = joined.concatenate(dataset(1))
    plan = DataPlan.from_dataset(joined)
    assert len(plan.source.parts) == 301
    assert plan.examples == 302
    assert "and 297 more" in plan.describe()[0]


def generated():
    return tf.data.Dataset.from_generator(
        lambda: iter([1, 2, 3]), output_signature=tf.TensorSpec((), tf.int64)
    )


def opaque(folder):
    return [
        (generated(), False),
        (dataset().group_by_window(is_even_key, lambda key, part: part.batch(2), 2), True),
        (dataset().apply(tf.data.experimental.copy_to_device("/cpu:0")), False),
        (dataset().apply(tf.data.experimental.assert_cardinality(6)), True),
        (dataset().map(random).apply(tf.data.experimental.assert_cardinality(6)), False),
        (dataset().cache(str(folder / "cache")), True),
    ]


def is_even_key(x):
    return x % 2


def random(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def test_what_is_not_understood_is_the_source_and_what_is_behind_it_is_taken_apart(tmp_path):
    for given, deterministic in opaque(tmp_path):
        behind = given.map(lambda x: x).take(2)
        plan = DataPlan.from_dataset(behind)
        assert [stage.kind for stage in plan.stages][1:] in (
            ["map_examples", "take"], ["map_batches", "take"],
        ), given  # fmt: skip
        assert plan.source.origin == "dataset"
        assert plan.source.value is given
        assert plan.source.deterministic is deterministic, given
        assert lower(plan) is behind


def test_files_that_are_read_in_turn_by_the_older_reader_repeat_but_are_not_looked_into(tmp_path):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"1")
    given = tf.data.TFRecordDataset([str(path)] * 3, num_parallel_reads=2)
    plan = DataPlan.from_dataset(given.map(tf.strings.to_number))
    assert plan.source.value is given
    assert plan.source.deterministic
    moving = tf.data.Dataset.from_tensor_slices([str(path)] * 3).shuffle(3)
    given = tf.data.TFRecordDataset(moving, num_parallel_reads=2)
    assert not DataPlan.from_dataset(given).source.deterministic


def test_the_authors_word_for_what_is_not_understood_counts():
    assert DataPlan.from_dataset(generated(), deterministic=True).source.deterministic


def test_batches_by_length_are_batches():
    lengths = dataset().map(as_vector).bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], bucket_boundaries=[2], bucket_batch_sizes=[2, 2]
    )  # fmt: skip
    assert DataPlan.from_dataset(lengths).batched


def test_a_data_set_that_holds_much_is_not_serialized(monkeypatch):
    data = tf.data.Dataset.from_tensor_slices(tf.zeros((9, 9)))
    mixed = data.interleave(lambda x: dataset(2), num_parallel_calls=2)
    assert DataPlan.from_dataset(mixed).source.origin == "arrays"
    monkeypatch.setattr(walk, "_MOST_BYTES", 100)
    assert DataPlan.from_dataset(mixed).source.origin == "dataset"


def test_an_unchanged_plan_is_the_very_object_and_a_change_rebuilds_what_is_behind_it():
    given = dataset().map(double).shuffle(3, seed=1).batch(2).map(double)
    plan = DataPlan.from_dataset(given)
    assert lower(plan) is given
    assert lower(plan.append(Prefetch()))._input_dataset is given
    assert lower(plan.upto(2)) is plan.given[1][1]
    parallel = lower(plan.replace(4, stages.MapBatches(function=double, parallel=2)))
    assert parallel._input_dataset is given._input_dataset
    assert lower(plan.with_stages(plan.stages[:3])) is plan.given[2][1]


def test_a_prefetch_inside_stays_and_one_at_the_end_gives_way_to_the_last_asked_for():
    plan = DataPlan.from_dataset(dataset().prefetch(1).map(double).prefetch(2))
    assert [stage.inside for stage in plan.stages if isinstance(stage, Prefetch)] == [True, False]
    longer = plan.append(Prefetch(buffer_size=5))
    assert longer.describe()[1] == "prefetch: 1"
    assert longer.describe()[-1] == "prefetch: 5"
    assert len(longer.lowering_order()) == 4
    # what an author puts behind his own data set stands behind its prefetch
    assert plan.batch(2).describe()[-2:] == ("prefetch: 2", "batch: 2")
    assert lower(plan.batch(2))._input_dataset is lower(plan)


def test_a_shuffle_from_its_pair_of_seeds_gives_the_orders_of_every_epoch():
    tf.random.set_seed(11)
    given = dataset(30).shuffle(30)
    plan = DataPlan.from_dataset(given)
    tf.random.set_seed(99)
    orders = epochs(given, 3)
    assert orders[0] != orders[1]
    assert epochs(lower_stages(plan.stages), 3) == orders
    assert plan.stages[1].seed == (11, int(given._seed2))
    assert epochs(shuffled(dataset(30), 30, plan.stages[1].seed, reshuffle=True), 3) == orders


def test_a_shuffle_without_any_seed_stays_without():
    from tensorflow.python.eager import context

    before = context.global_seed()
    try:
        tf.random.set_seed(None)
        plan = DataPlan.from_dataset(dataset(30).shuffle(30, reshuffle_each_iteration=False))
    finally:
        tf.random.set_seed(before if before is not None else 0)
    assert plan.stages[1].seed == (0, 0)
    assert not plan.stages[1].deterministic


def test_functions_keep_their_variables_tables_and_seeds():
    factor = tf.Variable(2.0)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([0, 1], [5.0, 6.0], tf.int64, tf.float32), -1.0
    )

    def function(x):
        return table.lookup(x) * factor, tf.random.uniform((), seed=4)

    given = dataset(3).map(function)
    anew = lower_stages(DataPlan.from_dataset(given).stages)
    assert epochs(anew) == epochs(given)
    factor.assign(10.0)
    assert [first for first, _ in epochs(anew)[0]] == [50.0, 60.0, -10.0]


def test_python_code_is_not_traced_again():
    calls = []

    def function(x):
        calls.append(x)
        return x + 1

    plan = DataPlan.from_dataset(dataset(3).map(function).filter(is_even))
    traced = len(calls)
    changed = plan.replace(1, stages.MapExamples(function=plan.stages[1].function, parallel=2))
    assert epochs(lower(changed), 1) == [[2]]
    assert len(calls) == traced


def test_python_functions_live_on_when_the_given_data_set_is_gone():
    def made():
        given = dataset(3).map(
            lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64), num_parallel_calls=2
        )
        return lower_stages(DataPlan.from_dataset(given).stages)

    gc.freeze()  # what earlier tests left takes most of a minute to collect
    anew = made()
    gc.collect()
    assert epochs(anew, 1) == [[1, 2, 3]]


def test_a_function_says_its_name_and_where_it_was_written():
    class Scaled:
        def __call__(self, x):
            return x * 3

    here = str(Path(__file__))
    for function, name in [
        (double, "double"),
        (functools.partial(lambda x, by: x * by, by=2), "<lambda>"),
        (Scaled(), "Scaled"),
    ]:
        stage = DataPlan.from_dataset(dataset().map(function)).stages[1]
        assert isinstance(stage.function, TracedFunction)
        assert name in function_name(stage.function)
        assert name in stage.describe()
        assert place_of(stage.function).startswith(here)
        assert place_of(stage.function) == place_of(function)
        # and again, out of a data set that was built from it
        again = DataPlan.from_dataset(
            lower_stages((*DataPlan.from_dataset(dataset()).stages, stage))
        )
        assert place_of(again.stages[1].function) == place_of(function)
        assert name in function_name(again.stages[1].function)
    assert place_of(double) == f"{here}:{double.__code__.co_firstlineno}"
    assert place_of(len) == ""
    assert place_of(3) == ""
