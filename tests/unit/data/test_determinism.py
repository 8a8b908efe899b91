"""What a stage's graph says about the next time it is run."""

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core.data import DataPlan
from tfopt_core.data.anatomy import random_ops

pytestmark = pytest.mark.tensorflow


def dataset():
    return tf.data.Dataset.range(6)


def printing(x):
    tf.print(x)
    return x


def inner_random(x):
    return tf.cond(x > 0, lambda: tf.random.uniform(()), lambda: 0.0)


def random_files(x):
    return tf.data.Dataset.range(x).shuffle(3)


def repeatable_files(x):
    return tf.data.TextLineDataset(tf.strings.as_string(x)).map(tf.strings.length).batch(2)


def looked_up():
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [1], tf.string, tf.int64), 1
    )
    return lambda x: table.lookup(tf.strings.as_string(x))


def looked_up_in_two(mutable):
    words = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["0"], tf.constant([1], tf.int64)), -1
    )
    numbers = tf.lookup.KeyValueTensorInitializer(tf.constant([1], tf.int64), [2.0])
    numbers = tf.lookup.StaticHashTable(numbers, 0.0)
    if mutable:
        numbers = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    nested = tf.function(lambda x: numbers.lookup(words.lookup(tf.strings.as_string(x))))
    return lambda x: tf.cond(x > 0, lambda: nested(x), lambda: 0.0)


def read_variable():
    variable = tf.Variable(1, dtype=tf.int64)
    return lambda x: x + variable


# (the step, its ops)
STEPS = [
    (lambda d: d.map(lambda x: x + 1), ()),
    (lambda d: d.map(printing), ("PrintV2",)),
    (lambda d: d.map(inner_random), ("RandomUniform",)),
    (lambda d: d.map(looked_up()), ()),
    (lambda d: d.map(looked_up_in_two(mutable=False)), ()),
    (lambda d: d.map(looked_up_in_two(mutable=True)), ("LookupTableFindV2",)),
    (lambda d: d.map(read_variable()), ("ReadVariableOp",)),
    (lambda d: d.filter(lambda x: inner_random(x) > 0.5), ("RandomUniform",)),
    (lambda d: d.interleave(repeatable_files), ()),
    (lambda d: d.flat_map(random_files), ("DummySeedGenerator", "ShuffleDatasetV3")),
]


@pytest.mark.parametrize("given", [True, False], ids=["taken apart", "written"])
@pytest.mark.parametrize(("step", "ops"), STEPS)
def test_what_may_differ_the_next_time_is_found_in_the_graph(step, ops, given):
    plan = DataPlan.from_dataset(step(dataset()))
    if not given:  # the same function, traced by tfopt
        stage = plan.stages[1]
        plan = plan.replace(1, type(stage)(function=lambda x: stage.function(x)))  # type: ignore[call-arg]
    assert set(random_ops(plan, 1)) == set(ops)


def test_a_random_layer_shows_as_its_state():
    flip = keras.layers.RandomFlip()
    data = dataset().map(lambda x: flip(np.zeros((2, 2, 1)), training=True))
    ops = random_ops(DataPlan.from_dataset(data), 1)
    assert {"AssignVariableOp", "ReadVariableOp"} <= set(ops)


def test_stages_without_a_function_repeat_but_for_a_shuffle():
    data = dataset().batch(2).cache().unbatch().window(2).flat_map(lambda w: w.batch(2)).skip(1)
    data = data.shard(2, 0).with_options(tf.data.Options()).shuffle(2).prefetch(1)
    plan = DataPlan.from_dataset(data)
    found = {stage.kind: random_ops(plan, index) for index, stage in enumerate(plan.stages)}
    assert found.pop("shuffle") == ("shuffle",)
    assert not any(found.values())


def test_what_is_random_in_a_part_of_a_zip_is_named():
    plan = DataPlan.from_dataset(tf.data.Dataset.zip(dataset().map(inner_random), dataset()))
    assert random_ops(plan, 0) == ("RandomUniform",)


def test_a_function_is_traced_once_for_each_kind_of_its_elements():
    traced = []

    def look(x):
        traced.append(x.dtype.name)
        return x

    for kind in ("int64", "float32"):
        plan = DataPlan.from_arrays(np.arange(3, dtype=kind)).map(look)
        for _ in range(3):
            assert random_ops(plan, 1) == random_ops(plan.first(2), 1) == ()
    assert traced == ["int64", "float32"]


def test_looking_draws_no_seed():
    """A shuffle that is built without a seed of its own would take one from those to come."""

    def next_number():
        tf.random.set_seed(5)
        plan = DataPlan.from_arrays(np.arange(4)).shuffle().map(lambda x: x + 1)
        if looks:
            random_ops(plan, 2)
        return float(tf.random.uniform(()))

    looks = False
    without = next_number()
    looks = True
    assert next_number() == without
