"""What is known of each stage, and that learning it costs and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from support.compared import epochs
from support.lazy_modules import keras, tf

from tfopt_core.data import DataPlan, Held, Resident, stage_facts
from tfopt_core.data.lower import lower
from tfopt_core.data.sampling import mean_bytes, tensor_bytes

pytestmark = pytest.mark.tensorflow


def of(facts, name):
    return [getattr(fact, name) for fact in facts]


def noisy(x):
    return x + tf.random.uniform((), dtype=x.dtype)


def as_vector(x):
    return tf.fill([x + 1], 1.0)


def test_specs_tell_bytes_exactly_and_nothing_is_computed(monkeypatch):
    monkeypatch.setattr("tfopt_core.data.anatomy.mean_bytes", lambda *_: pytest.fail("computed"))
    plan = DataPlan.from_arrays(np.zeros((10, 3), "float32"), np.zeros(10, "int64"))
    plan = plan.map(lambda x, y: (x[:2], y)).shuffle(seed=1).batch(4).prefetch()
    facts = stage_facts(plan)
    assert of(facts, "description") == list(plan.describe())
    assert of(facts, "element_bytes") == [20.0, 16.0, 16.0, 16.0 * 10 / 3, 16.0 * 10 / 3]
    assert of(facts, "cardinality") == [10, 10, 10, 3, 3]
    assert of(facts, "deterministic") == [True, True, False, True, True]
    assert of(facts, "random_ops")[2] == ("shuffle",)
    assert facts[1].element_spec[0].shape == (2,)


def test_where_specs_do_not_tell_a_sample_does():
    data = tf.data.Dataset.range(100).map(as_vector)
    facts = stage_facts(DataPlan.from_dataset(data.batch(1).shuffle(9, seed=1)), sample=10)
    assert np.mean([4 * length for length in range(1, 11)]) == 22.0
    assert of(facts, "element_bytes") == [8.0, 22.0, 22.0, 22.0]
    padded = stage_facts(DataPlan.from_dataset(data.padded_batch(2)), sample=4)
    assert padded[-1].element_bytes == (2 * 2 * 4 + 2 * 4 * 4) / 2


def test_a_filter_that_keeps_nothing_is_not_searched():
    seen = []

    def look(x):
        seen.append(int(x))
        return False

    data = tf.data.Dataset.range(1000).filter(lambda x: x < 0).map(as_vector)
    assert stage_facts(DataPlan.from_dataset(data), sample=5)[-1].element_bytes is None
    assert not seen


def test_of_a_generator_few_elements_are_read():
    read = []

    def words():
        for index in range(1000):
            read.append(index)
            yield "a" * 3

    facts = stage_facts(DataPlan.from_generator(words).map(lambda x: x + "b"))
    assert of(facts, "element_bytes") == [3.0, 4.0]
    assert of(facts, "cardinality") == [None, None]
    assert max(read) < 20


def test_learning_leaves_no_trace_in_what_is_trained_on():
    """Not in a shuffle's orders, a random layer's state, a cache, or the seeds to come."""

    def made():
        keras.utils.set_random_seed(3)
        flip = keras.layers.RandomBrightness(0.5, seed=1)
        data = tf.data.Dataset.range(12).map(as_vector).shuffle(12).cache()
        zipped = tf.data.Dataset.zip(data, tf.data.Dataset.range(12).shuffle(4)).map(
            lambda x, y: (flip(tf.reshape(x, (-1, 1, 1)), training=True), tf.fill([y], y))
        )
        plan = DataPlan.from_dataset(zipped)
        return plan.shuffle()

    untouched = epochs(lower(made()))
    plan = made()
    facts = stage_facts(plan)
    assert facts[-2].element_bytes is None
    assert "AssignVariableOp" in facts[-2].random_ops
    assert epochs(lower(plan)) == untouched


def test_batches_out_of_what_must_not_be_run_are_as_large_as_their_shape_says():
    state = tf.Variable(0.0)
    data = tf.data.Dataset.from_tensor_slices(tf.zeros((10, 3)))
    counting = data.batch(4).map(lambda x: x + state.assign_add(1.0))
    assert stage_facts(DataPlan.from_dataset(counting))[-1].element_bytes == 3 * 4 * 10 / 3
    assert float(state) == 0.0
    vectors = data.map(lambda x: as_vector(tf.cast(state.assign_add(1.0), tf.int32)))
    assert stage_facts(DataPlan.from_dataset(vectors))[-1].element_bytes is None
    assert float(state) == 0.0


def test_parallel_work_in_any_order_is_not_deterministic():
    data = tf.data.Dataset.range(4)
    sloppy = tf.data.Options()
    sloppy.deterministic = False
    for given, deterministic in [
        (data.map(lambda x: x), True),
        (data.map(lambda x: x, num_parallel_calls=2), True),
        (data.map(lambda x: x, num_parallel_calls=2, deterministic=False), False),
        (data.map(lambda x: x, num_parallel_calls=2).with_options(sloppy), False),
        (data.map(noisy_of_int), False),
    ]:
        assert stage_facts(DataPlan.from_dataset(given))[1].deterministic is deterministic


def noisy_of_int(x):
    return noisy(tf.cast(x, tf.float32))


def test_data_on_the_device_are_not_put_there_for_this():
    held = Held()
    plan = DataPlan.from_arrays(np.zeros((4, 2), "float32")).append(Resident(held=held)).batch(2)
    assert of(stage_facts(plan), "element_bytes") == [8.0, 8.0, 16.0]
    assert held.tensors is None


def test_slow_elements_are_few():
    clock = iter(range(100))
    plan = DataPlan.from_arrays([b"ab", b"c", b"c"])
    assert mean_bytes(plan, 64, seconds=0.5, now=lambda: next(clock)) == 2.0
    assert mean_bytes(plan, 64) == pytest.approx(4 / 3)


def test_data_that_cannot_be_computed_have_no_size():
    data = tf.data.Dataset.from_tensor_slices(["/nowhere"]).map(tf.io.read_file)
    assert stage_facts(DataPlan.from_dataset(data))[-1].element_bytes is None


def test_all_kinds_of_tensors_have_bytes():
    assert tensor_bytes(tf.zeros((2, 3), tf.float16)) == 12
    assert tensor_bytes(tf.constant(["ab", "c"])) == 3
    assert tensor_bytes(tf.ragged.constant([[1, 2], [3]], tf.int32)) == 3 * 4 + 3 * 8
    assert tensor_bytes(tf.sparse.from_dense([[0, 1]])) == 2 * 8 + 4 + 2 * 8
