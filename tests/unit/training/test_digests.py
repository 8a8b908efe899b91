"""Digests tell examples and batches apart by all that they hold, and by nothing else."""

import numpy as np
import pytest
from support.lazy_modules import tf

from tfopt_core.training.replay.data import example_digests, read_epoch

X = np.arange(12, dtype="float32").reshape(4, 3)


def dense():
    return X


def of_dict():
    return {"a": X, "b": X[:, 0].astype("int32")}, X[:, 1], np.ones(4, "float32")


def strings():
    return np.array([b"a", b"", b"a\0", b"a\0b"], dtype=object)


def ragged():
    return tf.ragged.constant([[[1], [2, 3]], [], [[]], [[4, 5, 6]]], dtype=tf.int32)


def sparse():
    return tf.sparse.from_dense(np.diag([1.0, 2.0, 0.0, 4.0]))


def bfloat16():
    return tf.cast(X, tf.bfloat16)


KINDS = [dense, of_dict, strings, ragged, sparse, bfloat16]


@pytest.mark.parametrize("make", KINDS)
def test_each_example_has_a_digest_that_does_not_depend_on_its_batch(make):
    dataset = tf.data.Dataset.from_tensor_slices(make())
    whole = [d for batch in dataset.batch(4) for d in example_digests(batch)]
    halves = [d for batch in dataset.batch(2) for d in example_digests(batch)]
    assert len(set(whole)) == 4
    if make is not ragged:  # of which a batch holds the rows' places alone
        assert whole == halves
    assert sorted(whole) == sorted(halves)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X, X.astype("float64")),
        (X, X + np.float32(1e-6)),
        (X, X.reshape(4, 3, 1)),
        ({"a": X}, {"b": X}),
        ((X, X), (X, X[:, :2])),
        (X, (X,)),
        (np.array([[b"ab", b"c"]], object), np.array([[b"a", b"bc"]], object)),
    ],
    ids=["type", "value", "shape", "name", "leaf", "nesting", "border of strings"],
)  # fmt: skip
def test_what_differs_has_other_digests(one, other):
    assert not set(example_digests(one)) & set(example_digests(other))


def test_rows_of_ragged_tensors_are_told_apart_by_where_they_end():
    one = tf.ragged.constant([[[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]]], dtype=tf.int32)
    assert len(set(example_digests(one))) == 4


def test_a_batch_without_a_common_axis_counts_as_one_example():
    assert len(example_digests((X, np.float32(3)))) == 1
    assert len(example_digests((X, X[:3]))) == 1


def test_order_changes_the_order_and_not_the_multiset():
    one = read_epoch([X[:2], X[2:]])
    turned = read_epoch([X[2:], X[:2]])
    assert (one.examples, one.batches, one.whole) == (4, 2, True)
    assert one.multiset == turned.multiset
    assert one.order != turned.order
    assert one.first == (turned.first[1], turned.first[0])


def test_borders_of_batches_belong_to_the_order():
    one, other = read_epoch([X[:2], X[2:]]), read_epoch([X[:1], X[1:]])
    assert one.multiset == other.multiset
    assert one.order != other.order


def test_an_example_that_is_repeated_or_lost_moves_the_multiset():
    whole = read_epoch([X]).multiset
    assert read_epoch([X[:3]]).multiset != whole
    assert read_epoch([np.concatenate([X[:3], X[:1]])]).multiset != whole


def test_reading_ends_when_the_time_is_up_or_there_are_enough():
    assert not read_epoch([X, X], until=0.0).whole
    assert read_epoch([X, X, X], most_batches=2).batches == 2
