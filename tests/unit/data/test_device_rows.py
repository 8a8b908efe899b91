"""Rows that are gathered on a device, as a GPU holds them: words in the place of small integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lazy_modules import tf

from tfopt_core.data.resident import DeviceRows

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
