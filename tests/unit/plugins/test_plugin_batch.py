"""The last batch is dropped and said, or padded; sequences are padded to few lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import keras, tf
from support.pipelines import assert_left_alone
from tfopt_data.batch import Batch, with_last_batch_dropped, with_last_batch_padded
from tfopt_data.padding import padding, padding_to, with_few_lengths

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import Finding, PluginRefused, TrainingOptions
from tfopt_core.testing import make_run

X = np.random.default_rng(0).random((50, 4), dtype="float32")
Y = X.sum(1, keepdims=True)


def examples(count=50):
    return DataPlan.from_arrays(X[:count], Y[:count])


def test_dropping_of_an_unknown_number_says_how_many_at_most():
    plan = examples().filter(lambda x, y: True).batch(16)
    assert with_last_batch_dropped(plan).done.startswith("drops up to 15 examples")


def test_dropping_everything_is_refused():
    with pytest.raises(PluginRefused, match="50 examples, fewer than a batch of 64"):
        with_last_batch_dropped(examples().batch(64))


@pytest.mark.parametrize("change", [with_last_batch_dropped, with_last_batch_padded])
@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (examples(48).batch(16), "every batch is full: 48 examples"),
        (examples().batch(16, drop_remainder=True), "drops the remainder itself"),
        (examples(), "where tfopt does not see it"),
    ],
)
def test_plan_is_unchanged_with_the_reason(change, plan, reason):
    assert_left_alone(plan, change(plan), reason)


def test_padded_batches_have_one_static_size_and_nothing_but_the_last_is_changed():
    rewrite = with_last_batch_padded(examples().batch(16))
    assert rewrite.done == "pads the last batch by 14 examples of weight 0 to 16, weighted"
    data = lower(rewrite.plan)
    assert [spec.shape.as_list() for spec in data.element_spec] == [[16, 4], [16, 1], [16]]
    *whole, (x, _, weights) = data.as_numpy_iterator()
    for place, (one, _, ones) in enumerate(whole):
        np.testing.assert_array_equal(one, X[16 * place : 16 * place + 16])
        np.testing.assert_array_equal(ones, np.ones(16))
    np.testing.assert_array_equal(x, np.tile(X[48:], (8, 1)))
    np.testing.assert_array_equal(weights, [8.0, 8.0] + [0.0] * 14)


def test_only_what_can_be_weighted_is_padded():
    assert "(x, y)" in with_last_batch_padded(DataPlan.from_arrays(X).batch(16)).reason


@few_examples(10)
@given(
    st.integers(1, 40), st.integers(1, 12), st.booleans(),
    st.sampled_from(["sum_over_batch_size", "mean_with_sample_weight"]),
)  # fmt: skip
def test_mean_loss_of_each_batch_stays_the_same(count, size, weighted, reduction):
    weights = (np.arange(count, dtype="float32") % 3 + 1,) if weighted else ()
    plan = DataPlan.from_arrays(X[:count], Y[:count], *weights).batch(size)
    loss = keras.losses.MeanAbsoluteError(reduction=reduction)
    padded = plan if count % size == 0 else with_last_batch_padded(plan).plan
    for before, after in zip(lower(plan), lower(padded), strict=True):
        assert after[0].shape[0] == size
        losses = [float(loss(y, x[:, :1], *rest)) for x, y, *rest in (before, after)]
        np.testing.assert_allclose(*losses, rtol=1e-5)


def test_parts_of_a_batch_in_dicts_are_padded_alike():
    x = {"a": tf.zeros([3, 2]), "b": tf.constant([[1], [2], [3]])}
    made = padding(4)(x, (tf.range(3), tf.range(3.0)), tf.constant([1, 2, 4]))
    assert made[0]["b"].numpy().ravel().tolist() == [1, 2, 3, 1]
    assert [leaf.numpy().tolist() for leaf in made[1]] == [[0, 1, 2, 0], [0.0, 1.0, 2.0, 0.0]]
    np.testing.assert_allclose(made[2], np.array([1, 2, 4, 0]) * 4 / 3, rtol=1e-6)


def dense(*shape, units=1):
    return keras.Sequential([keras.Input(shape), keras.layers.Dense(units)])


def normalized():
    norm = keras.layers.BatchNormalization(name="norm")
    return keras.Sequential([keras.Input((4,)), norm, keras.layers.Dense(1)])


def own():
    class Own(keras.Model):
        def call(self, x):
            return x

    return Own()


def stopping(monitor):
    return keras.callbacks.EarlyStopping(monitor=monitor)


def configured(model, plan=None, last="pad", **options):
    plugin, run = Batch(last=last), make_run(steps_per_epoch=None)
    plugin.build_dataset(run, "train", (examples() if plan is None else plan).batch(16))
    options = {"optimizer": "sgd", "loss": "mse", **options}
    plugin.configure_training(run, model, TrainingOptions(**options))


def test_padding_is_refused_where_weights_do_not_even_it_out():
    tokens, rows = (X[..., None], X), DataPlan.from_arrays(X, X)
    for said, model, options in (
        ('statistics of the layer "norm"', normalized(), {}),
        ('reduced by "sum"', dense(4), {"loss": keras.losses.MeanSquaredError(reduction="sum")}),
        ("adds its own loss", dense(4), {"loss": None}),
        ("has 3 axes", dense(4, 1), {"plan": DataPlan.from_arrays(*tokens)}),
        ("does not tell the shape", own(), {"plan": rows}),
        ("EarlyStopping acts on the training loss", dense(4), {"callbacks": (stopping("loss"),)}),
    ):
        with pytest.raises(PluginRefused, match=said):
            configured(model, **options)
    for model, options in (
        (normalized(), {"last": "drop"}),
        (dense(4, 1), {"plan": DataPlan.from_arrays(*tokens, X)}),
        (dense(4, units=3), {"plan": DataPlan.from_arrays(X, X[:, :3])}),
        (own(), {}),
        (dense(4), {"callbacks": (stopping("val_loss"),)}),
    ):
        configured(model, **options)


def test_no_batch_is_dropped_that_the_steps_of_an_epoch_need():
    plugin, options = Batch(last="drop"), TrainingOptions(optimizer="adam")
    for steps in (None, 3, 4):
        run = make_run(steps_per_epoch=steps)
        plan = plugin.build_dataset(run, "train", examples().batch(16))
        assert plan.cardinality == 3
        if steps == 4:
            with pytest.raises(PluginRefused, match="takes 4 steps an epoch, and 3 whole batches"):
                plugin.configure_training(run, None, options)
        else:
            assert plugin.configure_training(run, None, options) is options


# Sequences padded to few lengths: fewer shapes and traces; what a mask hides changes nothing

# of the 24 texts; each batch of two has another longest one
LENGTHS = [2 + number for number in range(24)]


def texts(value=0, **options):
    rows = tf.ragged.constant([[1 + n % 5] * n for n in LENGTHS], dtype=tf.int32)
    data = tf.data.Dataset.from_tensor_slices((rows, np.arange(24) % 2))
    return data.map(lambda row, label: (row, label)).padded_batch(
        2, padding_values=(np.int32(value), np.int64(0)), **options
    )


def plan(value=0):
    return DataPlan.from_dataset(texts(value))


@pytest.mark.parametrize(
    ("lengths", "padded"),
    [
        ((8, 16, 32), [8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 32]),
        ((10,), [10, 10, 10, 10, 20, 20, 20, 20, 20, 30, 30, 30]),
        ("power-of-two", [4, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 32]),
    ],
)
def test_batches_get_the_least_length_that_holds_them_and_nothing_is_cut_off(lengths, padded):
    rewrite = with_few_lengths(plan(value=9), lengths)
    made = list(lower(rewrite.plan).as_numpy_iterator())
    assert [rows.shape[1] for rows, _ in made] == padded
    for (before, labels), (after, same) in zip(texts(9).as_numpy_iterator(), made, strict=True):
        np.testing.assert_array_equal(after[:, : before.shape[1]], before)
        assert (after[:, before.shape[1] :] == 9).all()
        np.testing.assert_array_equal(labels, same)


def test_every_kind_of_tensor_is_padded_where_its_axis_changes():
    pad = padding_to((4,), ((1,), (2,), ()))
    made = pad({"a": tf.constant([["x"]]), "b": tf.ones([1, 2, 3, 1]), "c": tf.ones([1, 5])})
    assert made["a"].numpy().tolist() == [[b"x", b"", b"", b""]]
    assert made["b"].shape == (1, 2, 4, 1)
    assert made["c"].shape == (1, 5)


def test_batches_that_no_padded_batch_made_are_padded_at_the_end():
    rows = tf.data.Dataset.range(1, 9).batch(2).map(lambda numbers: tf.ones([2, numbers[0]]))
    rewrite = with_few_lengths(DataPlan.from_dataset(rows), (4, 8))
    assert [tuple(row.shape) for row in lower(rewrite.plan)] == [(2, 4)] * 2 + [(2, 8)] * 2


def test_one_shape_is_left_alone_with_the_reason():
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


def model(mask):
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(8, 4, mask_zero=mask),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("mask", [True, False])
def test_only_a_mask_makes_it_the_same_training_and_the_effect_counts_shapes(train, mask):
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
def test_lengths_that_are_no_fewer_are_not_applied(train):
    every = Batch(last="keep", pad_to=tuple(range(3, 26)))
    driven = train(every, plan=plan(), model=lambda: model(True), epochs=1)
    assert not driven.effect.applied
    assert driven.effect.detail == "train: 12 shapes in 12 batches become 12, which are no fewer"


@pytest.mark.thorough
def test_lengths_and_the_last_batch_are_padded_together(train):
    given = DataPlan.from_dataset(texts().unbatch().take(23).padded_batch(2))
    driven = train(Batch(pad_to=(32,)), plan=given, model=lambda: model(True), epochs=1)
    assert driven.effect.applied
    assert driven.effect.detail == (
        "train: pads to lengths of 32: 12 shapes in 12 batches become 1; pads the last batch by 1 "
        "examples of weight 0 to 2, weighted"
    )


def test_it_is_suggested_where_a_step_is_traced_again_for_shapes():
    again = (Finding(kind="retracing", detail="for new shapes"),)
    proposed = Batch().suggest(diagnosis(findings=again, plans={"train": plan()}))
    assert proposed == {"last": "keep", "pad_to": "power-of-two"}
    one = DataPlan.from_arrays(np.ones((8, 3)), np.ones(8)).batch(4)
    assert Batch().suggest(diagnosis(findings=again, plans={"train": one})) is None
    assert Batch().suggest(diagnosis(plans={"train": plan()})) is None
