"""Functions of one example on whole batches: the same elements, or left alone with the reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.lazy_modules import tf
from support.pipelines import assert_left_alone, kinds
from tfopt_data.vectorize_map import with_vectorized_maps

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower

PICTURES = np.random.default_rng(0).integers(0, 256, (23, 6, 4), dtype="uint8")
LABELS = np.arange(23) % 5


def pictures():
    return DataPlan.from_arrays(PICTURES, LABELS)


def batches(plan):
    return [tuple(np.asarray(leaf) for leaf in batch) for batch in lower(plan)]


def assert_same_batches(plan, other, tolerance=1e-5):
    assert lower(plan).element_spec == lower(other).element_spec
    for ours, theirs in zip(batches(plan), batches(other), strict=True):
        for made, one in zip(ours, theirs, strict=True):
            assert made.dtype == one.dtype
            np.testing.assert_allclose(made, one, rtol=tolerance)


def scale(x, y):
    return tf.cast(x, tf.float32) / 255.0, y


def jitter(x, y):
    return tf.cast(x, tf.float32) + tf.random.uniform(()), y


def read_png(x, y):
    return tf.io.decode_png(tf.io.encode_png(x[..., None])), y


def only_dark(x, y):
    return tf.boolean_mask(x, x < 128), y


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (pictures().map(jitter).batch(4), "draws at random (op RandomUniform)"),
        (pictures().map(read_png).batch(4), "by tf.vectorized_map"),
        (pictures().map(only_dark).batch(1), "by tf.vectorized_map"),
        (pictures().map(scale).shuffle().batch(4), 'but "shuffle: all examples'),
        (pictures().batch(4).map(scale), "no map directly before the batch"),
        (pictures().map(scale), "nothing is put into batches"),
    ],
)
def test_plan_is_unchanged_with_the_reason(plan, reason):
    assert_left_alone(plan, with_vectorized_maps(plan), reason)


def test_what_depends_on_the_batch_is_found_out_though_all_examples_have_one_maximum():
    white = np.full((9, 2), 255.0, "float32")

    def to_maximum(x):
        return x / tf.reduce_max(x)

    plan = DataPlan.from_arrays(white).map(to_maximum).batch(3)
    assert "by tf.vectorized_map" in with_vectorized_maps(plan).done


def test_map_behind_a_random_one_is_vectorized_without_drawing_from_its_state():
    generator = tf.random.Generator.from_seed(1)

    def augment(x, y):
        return tf.cast(x, tf.float32) + generator.uniform(()), y

    plan = pictures().map(augment).map(scale).batch(4)
    before = generator.state.numpy().tolist()
    rewrite = with_vectorized_maps(plan)
    assert generator.state.numpy().tolist() == before
    assert kinds(rewrite.plan) == ["source", "map_examples", "batch", "map_batches"]
    assert "augment" in rewrite.done.partition("not vectorized")[2]


def test_a_source_that_yields_others_each_time_is_not_read_for_a_sample():
    """A shuffle of the script's, or a generator with a state, would go on from there."""
    read = []

    def each():
        read.append(1)
        yield from zip(PICTURES, LABELS, strict=True)

    signature = (tf.TensorSpec((6, 4), tf.uint8), tf.TensorSpec((), tf.int64))
    data = tf.data.Dataset.from_generator(each, output_signature=signature)
    plan = DataPlan.from_dataset(data).map(scale).batch(4)
    made = with_vectorized_maps(plan)
    assert "scale" in made.done
    texts = tf.data.Dataset.from_generator(each, output_signature=tf.TensorSpec((), tf.string))
    plan = DataPlan.from_dataset(texts).map(tf.strings.length).batch(4)
    assert "has no example to be tried on" in with_vectorized_maps(plan).reason
    assert not read


def test_same_bits_are_asked_for_where_rounding_is_not_allowed():
    plan = pictures().map(scale).batch(5)
    rewrite = with_vectorized_maps(plan, rounding=False)
    assert_same_batches(rewrite.plan, plan, tolerance=0)


FUNCTIONS = [
    lambda x: x * 2 + 1,
    lambda x: x - x[0],
    lambda x: x[::-1],
    lambda x: x[:2],
    lambda x: x - tf.reduce_max(x),
    lambda x: tf.reshape(x, [-1, 1])[:, 0],
    lambda x: x * tf.reduce_max(x) if tf.reduce_max(x) > 0 else x,
]


@few_examples(5)
@given(
    st.integers(1, 20), st.integers(1, 7),
    st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=2),
    st.sampled_from(["int32", "float32"]),
)  # fmt: skip
def test_random_plans_keep_their_elements(count, size, functions, kind):
    values = np.random.default_rng(count).integers(-50, 50, (count, 3)).astype(kind)
    plan = DataPlan.from_arrays(values)
    for function in functions:
        plan = plan.map(function, parallel=2)
    plan = plan.batch(size)
    made = with_vectorized_maps(plan).plan
    assert kinds(made) == ["source", "batch", *["map_batches"] * len(functions)]
    assert all(stage.parallel == 2 for stage in made.stages[2:])
    for ours, theirs in zip(lower(made), lower(plan), strict=True):
        np.testing.assert_array_equal(ours, theirs)
