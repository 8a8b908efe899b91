"""What a graph says of the next time it runs; a map that decodes and then draws is two maps."""

import numpy as np
import pytest
from support.compared import epochs
from support.lazy_modules import keras, tf
from tfopt_data.cache import with_cache
from tfopt_data.parallel_map import with_parallel_maps
from tfopt_data.rewrite import with_split_maps

from tfopt_core.data import DataPlan, random_ops, split_map
from tfopt_core.data.lower import lower, lower_plan


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


def with_a_table():
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
    (lambda d: d.map(with_a_table()), ()),
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


IMAGES = np.random.default_rng(0).integers(0, 255, (10, 8, 8, 3)).astype("uint8")


def decoded(image):
    return tf.image.resize(tf.cast(image, tf.float32) / 255.0, (6, 6))


def cropped():
    def augment(image, label):
        image = tf.image.random_flip_left_right(decoded(image))
        return tf.image.random_crop(image, (4, 4, 3)), label

    return augment


def drawn_in_branches():
    def augment(image, label):
        image = decoded(image)
        image = tf.cond(label > 4, lambda: image, lambda: tf.image.flip_up_down(image))
        turned = tf.cond(
            tf.random.uniform(()) > 0.5,
            lambda: tf.image.random_brightness(image, 0.2),
            lambda: image,
        )
        return {"image": turned, "label": label}

    return augment


def layers():
    flip, turn = keras.layers.RandomFlip(seed=3), keras.layers.RandomTranslation(0.2, 0.2, seed=4)
    return lambda image, label: (turn(flip(decoded(image), training=True), training=True), label)


def looked_up():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(np.arange(10), np.arange(10) ** 2), -1
    )
    return lambda image, label: (decoded(image) + tf.random.normal(()), table.lookup(label))


def called_in_python():
    calls = []

    def numbered(image):
        calls.append(1)
        return image + np.float32(len(calls))

    return lambda image, label: (tf.numpy_function(numbered, [decoded(image)], tf.float32), label)


def elements(make, change):
    """What two epochs of shuffled batches are, each example mapped."""
    keras.utils.set_random_seed(7)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10)))
    plan = DataPlan.from_dataset(data.shuffle(10).map(make()).batch(4))
    return epochs(lower(change(plan)))


def place_of_map(plan):
    [place] = [i for i, stage in enumerate(plan.stages) if stage.kind == "map_examples"]
    return place


DRAWING = [cropped, drawn_in_branches, layers, looked_up, called_in_python]


@pytest.mark.parametrize("make", DRAWING)
@pytest.mark.parametrize(
    "keep", [lambda plan: plan, lambda plan: with_cache(plan).plan,
             lambda plan: with_parallel_maps(plan, 2).plan],
    ids=["as they are", "the first kept", "the first in parallel"],
)  # fmt: skip
def test_the_two_maps_yield_what_the_one_does(make, keep):
    def change(plan):
        found = with_split_maps(plan)
        assert len(found.stages) == len(plan.stages) + 1
        return keep(found)

    assert elements(make, change) == elements(make, lambda plan: plan)


def test_the_first_map_draws_nothing_and_the_second_all():
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(drawn_in_branches())
    plan = DataPlan.from_dataset(data)
    place = place_of_map(plan)
    found = split_map(plan, place)
    assert found is not None
    assert random_ops(found, place) == ()
    assert random_ops(found, place + 1) == random_ops(plan, place) == ("RandomUniform",)
    assert lower_plan(found).element_spec == data.element_spec
    assert [stage.describe() for stage in found.stages[place:]] == [
        "map_examples: drawn_in_branches.augment, before it draws (sequential)",
        "map_examples: drawn_in_branches.augment, from its draws on (sequential)",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda image, label: (decoded(image), label),
        lambda image, label: (tf.cast(image, tf.float32) * 2 + tf.random.normal(()), label),
        lambda image, label: (decoded(image + tf.cast(tf.random.normal(()), tf.uint8)), label),
    ],
    ids=["draws nothing", "computes next to nothing before", "draws first"],
)
def test_a_map_stays_one_where_two_would_save_nothing(function):
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(function)
    plan = DataPlan.from_dataset(data)
    assert split_map(plan, place_of_map(plan)) is None
    assert with_split_maps(plan) is plan


def test_an_assertion_of_the_first_map_fails_as_before():
    def checked(image, label):
        tf.debugging.assert_less(label, np.int64(5))
        return decoded(image) + tf.random.normal(()), label

    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(checked)
    found = with_split_maps(DataPlan.from_dataset(data))
    assert len(found.stages) == 3
    with pytest.raises(tf.errors.InvalidArgumentError):
        epochs(lower(found), 1)
