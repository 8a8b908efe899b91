"""The last batch: dropped and said, or padded without moving the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.lazy_modules import keras, tf
from support.plugin_drive import Driven
from tfopt_data.batch import Batch, with_last_batch_dropped, with_last_batch_padded
from tfopt_data.padding import padding

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused, TrainingOptions
from tfopt_core.testing import make_run

X = np.random.default_rng(0).random((50, 4), dtype="float32")
Y = X.sum(1, keepdims=True)


def examples(count: int = 50) -> DataPlan:
    return DataPlan.from_arrays(X[:count], Y[:count])


def test_number_of_dropped_examples_is_said() -> None:
    rewrite = with_last_batch_dropped(examples().shuffle(seed=1).batch(16))
    assert rewrite.done == "drops 2 examples an epoch, the last that fill no batch of 16"
    assert rewrite.plan.stages[-1].drop_remainder


def test_dropping_of_an_unknown_number_says_how_many_at_most() -> None:
    plan = examples().filter(lambda x, y: True).batch(16)
    assert with_last_batch_dropped(plan).done.startswith("drops up to 15 examples")


def test_dropping_everything_is_refused() -> None:
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
def test_plan_is_unchanged_with_the_reason(change: Any, plan: DataPlan, reason: str) -> None:
    rewrite = change(plan)
    assert rewrite.plan is plan
    assert reason in rewrite.reason


@pytest.mark.tensorflow
def test_padded_batches_have_one_static_size_and_nothing_but_the_last_is_changed() -> None:
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


@pytest.mark.tensorflow
def test_only_what_can_be_weighted_is_padded() -> None:
    assert "(x, y)" in with_last_batch_padded(DataPlan.from_arrays(X).batch(16)).reason


@pytest.mark.tensorflow
@few_examples(10)
@given(
    st.integers(1, 40), st.integers(1, 12), st.booleans(),
    st.sampled_from(["sum_over_batch_size", "mean_with_sample_weight"]),
)  # fmt: skip
def test_mean_loss_of_each_batch_stays_the_same(
    count: int, size: int, weighted: bool, reduction: str
) -> None:
    weights = (np.arange(count, dtype="float32") % 3 + 1,) if weighted else ()
    plan = DataPlan.from_arrays(X[:count], Y[:count], *weights).batch(size)
    loss = keras.losses.MeanAbsoluteError(reduction=reduction)
    padded = plan if count % size == 0 else with_last_batch_padded(plan).plan
    for before, after in zip(lower(plan), lower(padded), strict=True):
        assert after[0].shape[0] == size
        losses = [float(loss(y, x[:, :1], *rest)) for x, y, *rest in (before, after)]
        np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.tensorflow
def test_parts_of_a_batch_in_dicts_are_padded_alike() -> None:
    x = {"a": tf.zeros([3, 2]), "b": tf.constant([[1], [2], [3]])}
    made = padding(4)(x, (tf.range(3), tf.range(3.0)), tf.constant([1, 2, 4]))
    assert made[0]["b"].numpy().ravel().tolist() == [1, 2, 3, 1]
    assert [leaf.numpy().tolist() for leaf in made[1]] == [[0, 1, 2, 0], [0.0, 1.0, 2.0, 0.0]]
    np.testing.assert_allclose(made[2], np.array([1, 2, 4, 0]) * 4 / 3, rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_training_ends_with_the_same_weights_and_the_effect_is_read_back(
    train: Callable[..., Driven],
) -> None:
    plan = examples().batch(16)
    padded, plain = train(Batch(), plan=plan), train(Batch(last="keep"), plan=plan)
    assert padded.effect.applied
    assert padded.effect.detail.startswith("train: pads the last batch by 14 examples")
    assert not plain.effect.applied
    for ours, theirs in zip(padded.model.get_weights(), plain.model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.tensorflow
def test_dropping_is_read_back(train: Callable[..., Driven]) -> None:
    driven = train(Batch(last="drop"), plan=examples().batch(16))
    assert driven.effect.applied
    assert driven.effect.detail.startswith("train: drops 2 examples an epoch")


def normalized() -> Any:
    norm = keras.layers.BatchNormalization(name="norm")
    return keras.Sequential([keras.Input((4,)), norm, keras.layers.Dense(1)])


@pytest.mark.tensorflow
def test_padding_is_refused_for_batch_normalization(train: Callable[..., Driven]) -> None:
    with pytest.raises(PluginRefused, match='statistics of the layer "norm"'):
        train(Batch(), plan=examples().batch(16), model=normalized)
    assert train(Batch(last="drop"), plan=examples().batch(16), model=normalized).effect.applied


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("loss", "said"),
    [("sum", 'reduced by "sum"'), (None, "adds its own loss")],
)
def test_padding_is_refused_for_a_loss_that_weights_do_not_even_out(loss: Any, said: str) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    if loss is not None:
        loss = keras.losses.MeanSquaredError(reduction=loss)
    plugin, run = Batch(), make_run()
    plugin.build_dataset(run, "train", examples().batch(16))
    options = TrainingOptions(optimizer="sgd", loss=loss)
    with pytest.raises(PluginRefused, match=said):
        plugin.configure_training(run, model, options)


def _configured(model: Any, plan: DataPlan, **options: Any) -> None:
    plugin, run = Batch(), make_run()
    plugin.build_dataset(run, "train", plan)
    options = {"optimizer": "sgd", "loss": "mse", **options}
    plugin.configure_training(run, model, TrainingOptions(**options))


@pytest.mark.tensorflow
def test_padding_is_refused_where_one_example_has_several_losses() -> None:
    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    tokens = keras.Sequential([keras.Input((4, 1)), keras.layers.Dense(1)])
    plan = DataPlan.from_arrays(X[..., None], X).batch(16)
    with pytest.raises(PluginRefused, match="has 3 axes"):
        _configured(tokens, plan)
    _configured(tokens, DataPlan.from_arrays(X[..., None], X, X).batch(16))
    one_hot = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    _configured(one_hot, DataPlan.from_arrays(X, X[:, :3]).batch(16))
    with pytest.raises(PluginRefused, match="does not tell the shape"):
        _configured(Own(), DataPlan.from_arrays(X, X).batch(16))
    _configured(Own(), examples().batch(16))


@pytest.mark.tensorflow
def test_padding_is_refused_where_a_callback_acts_on_the_training_loss() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    stop = keras.callbacks.EarlyStopping
    with pytest.raises(PluginRefused, match="EarlyStopping acts on the training loss"):
        _configured(model, examples().batch(16), callbacks=(stop(monitor="loss"),))
    _configured(model, examples().batch(16), callbacks=(stop(monitor="val_loss"),))


def test_no_batch_is_dropped_that_the_steps_of_an_epoch_need() -> None:
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


def test_validation_data_stay_as_they_are() -> None:
    plan = examples().batch(16)
    assert Batch(last="drop").build_dataset(make_run(), "validation", plan) is plan


def test_math_is_what_becomes_of_the_examples() -> None:
    assert [Batch(last=last).equivalence() for last in ("keep", "pad", "drop")] == [
        "exact", "rounding", "changes",
    ]  # fmt: skip
