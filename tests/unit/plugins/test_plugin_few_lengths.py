"""Sequences padded to few lengths: fewer shapes and traces; what a mask hides changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import keras, tf
from support.plugin_drive import Driven
from tfopt_data.batch import Batch
from tfopt_data.padding import padding_to, with_few_lengths

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import Finding

# of the 24 texts; each batch of two has another longest one
LENGTHS = [2 + number for number in range(24)]


def texts(value: int = 0, **options: Any) -> Any:
    rows = tf.ragged.constant([[1 + n % 5] * n for n in LENGTHS], dtype=tf.int32)
    data = tf.data.Dataset.from_tensor_slices((rows, np.arange(24) % 2))
    return data.map(lambda row, label: (row, label)).padded_batch(
        2, padding_values=(np.int32(value), np.int64(0)), **options
    )


def plan(value: int = 0) -> DataPlan:
    return DataPlan.from_dataset(texts(value))


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("lengths", "padded"),
    [
        ((8, 16, 32), [8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 32]),
        ((10,), [10, 10, 10, 10, 20, 20, 20, 20, 20, 30, 30, 30]),
        ("power-of-two", [4, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 32]),
    ],
)
def test_batches_get_the_least_length_that_holds_them_and_nothing_is_cut_off(
    lengths: Any, padded: list[int]
) -> None:
    rewrite = with_few_lengths(plan(value=9), lengths)
    made = list(lower(rewrite.plan).as_numpy_iterator())
    assert [rows.shape[1] for rows, _ in made] == padded
    for (before, labels), (after, same) in zip(texts(9).as_numpy_iterator(), made, strict=True):
        np.testing.assert_array_equal(after[:, : before.shape[1]], before)
        assert (after[:, before.shape[1] :] == 9).all()
        np.testing.assert_array_equal(labels, same)


@pytest.mark.tensorflow
def test_every_kind_of_tensor_is_padded_where_its_axis_changes() -> None:
    pad = padding_to((4,), ((1,), (2,), ()))
    made = pad({"a": tf.constant([["x"]]), "b": tf.ones([1, 2, 3, 1]), "c": tf.ones([1, 5])})
    assert made["a"].numpy().tolist() == [[b"x", b"", b"", b""]]
    assert made["b"].shape == (1, 2, 4, 1)
    assert made["c"].shape == (1, 5)


@pytest.mark.tensorflow
def test_batches_that_no_padded_batch_made_are_padded_at_the_end() -> None:
    rows = tf.data.Dataset.range(1, 9).batch(2).map(lambda numbers: tf.ones([2, numbers[0]]))
    rewrite = with_few_lengths(DataPlan.from_dataset(rows), (4, 8))
    assert [tuple(row.shape) for row in lower(rewrite.plan)] == [(2, 4)] * 2 + [(2, 8)] * 2


@pytest.mark.tensorflow
def test_one_shape_is_left_alone_with_the_reason() -> None:
    ones = tf.data.Dataset.from_tensor_slices(np.ones((4, 3), "float32"))
    unsaid = ones.map(lambda row: tf.numpy_function(lambda one: one, [row], tf.float32))
    unsaid = unsaid.map(lambda row: tf.ensure_shape(row, [None])).padded_batch(2)
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])).batch(2)
    for data, reason in (
        (ones.batch(2), "all batches have one shape: (?, 3)"),
        (unsaid, "2 batches were read, of one shape: (2, 3)"),
        (ragged, "ragged tensors have no padding"),
    ):
        given = DataPlan.from_dataset(data)
        rewrite = with_few_lengths(given, (4,))
        assert rewrite.plan is given
        assert reason in rewrite.reason


def test_it_is_another_training_unless_left_out() -> None:
    assert Batch(pad_to="power-of-two", last="keep").equivalence() == "changes"
    assert Batch(last="keep").equivalence() == "exact"


def model(mask: bool) -> Any:
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(8, 4, mask_zero=mask),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )


@pytest.mark.thorough
@pytest.mark.tensorflow
@pytest.mark.parametrize("mask", [True, False])
def test_only_a_mask_makes_it_the_same_training_and_the_effect_counts_shapes(
    train: Callable[..., Driven], mask: bool
) -> None:
    padded = train(Batch(last="keep", pad_to=(16, 32)), plan=plan(), model=lambda: model(mask))
    plain = train(Batch(last="keep"), plan=plan(), model=lambda: model(mask))
    assert padded.effect.applied
    assert padded.effect.detail == (
        "train: pads to lengths of 16, 32: 12 shapes in 12 batches become 2"
    )
    ours, theirs = padded.model.get_weights(), plain.model.get_weights()
    close = [np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(ours, theirs, strict=True)]
    assert all(close) is mask


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_lengths_that_are_no_fewer_are_not_applied(train: Callable[..., Driven]) -> None:
    every = Batch(last="keep", pad_to=tuple(range(3, 26)))
    driven = train(every, plan=plan(), model=lambda: model(True), epochs=1)
    assert not driven.effect.applied
    assert driven.effect.detail == "train: 12 shapes in 12 batches become 12, which are no fewer"


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_lengths_and_the_last_batch_are_padded_together(
    train: Callable[..., Driven],
) -> None:
    given = DataPlan.from_dataset(texts().unbatch().take(23).padded_batch(2))
    driven = train(Batch(pad_to=(32,)), plan=given, model=lambda: model(True), epochs=1)
    assert driven.effect.applied
    assert driven.effect.detail == (
        "train: pads to lengths of 32: 12 shapes in 12 batches become 1; pads the last batch by 1 "
        "examples of weight 0 to 2, weighted"
    )


@pytest.mark.tensorflow
def test_it_is_suggested_where_a_step_is_traced_again_for_shapes() -> None:
    again = (Finding(kind="retracing", detail="for new shapes"),)
    proposed = Batch().suggest(diagnosis(findings=again, plans={"train": plan()}))
    assert proposed == {"last": "keep", "pad_to": "power-of-two"}
    one = DataPlan.from_arrays(np.ones((8, 3)), np.ones(8)).batch(4)
    assert Batch().suggest(diagnosis(findings=again, plans={"train": one})) is None
    assert Batch().suggest(diagnosis(plans={"train": plan()})) is None
