"""Batches in parts: the training is that of plain Keras, and what parts would change is named."""

from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, layers
from support.small_workloads import with_own_step
from tfopt_runtime.chunked import Chunked
from tfopt_training.gradient_accumulation import GradientAccumulation

from tfopt_core import Workload

WORDS = np.random.default_rng(0).integers(1, 20, (40, 6)).astype("int32")
LABELS = np.random.default_rng(1).integers(0, 3, 40).astype("int32")
WEIGHTS = np.random.default_rng(2).random(40).astype("float32")


def network(*between: Any) -> Any:
    # words that occur twice: their gradients are rows, which Adam takes one by one
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 4),
            layers.Flatten(),
            *between,
            layers.Dense(3, kernel_regularizer="l2"),
        ]
    )


def word_by_word() -> Any:
    # the gradient of a dense layer over words has no known shape where the batch has none
    words = keras.Input((6,), dtype="int32")
    hidden = layers.Dense(4, "gelu")(layers.Dense(8)(layers.Embedding(20, 4)(words)))
    return keras.Model(words, layers.Dense(3)(layers.Flatten()(hidden)))


def loss(reduction: str = "sum_over_batch_size") -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)


def workload(build_model: Any = network, **changes: Any) -> Workload:
    fields = {"loss": loss(), "optimizer": "adam", "metrics": ["accuracy"], **changes}
    return Workload(**{"train": (WORDS, LABELS, WEIGHTS), "build_model": build_model, **fields})


def by_hand(build_model: Any, batch_size: int, optimizer: str) -> tuple[Any, Any]:
    """Stock Keras over whole batches."""
    keras.utils.set_random_seed(7)
    model = build_model()
    model.compile(optimizer, loss(), metrics=["accuracy"])
    fitted = model.fit(
        WORDS, LABELS, sample_weight=WEIGHTS, batch_size=batch_size, epochs=2, shuffle=False,
        verbose=0,
    )  # fmt: skip
    return fitted.history, model


@pytest.mark.parametrize(
    ("build_model", "batch_size", "steps", "optimizer", "beside"),
    [
        (network, 20, 4, "adam", ()),
        (word_by_word, 16, 3, "sgd", ()),  # parts of 6, 6 and 4, and a last batch of 8
        pytest.param(
            network, 20, 3, "adam", (Chunked(steps=2, xla=True),), marks=pytest.mark.thorough
        ),
    ],
)
def test_the_training_is_that_of_plain_keras(
    tmp_path: Any, build_model: Any, batch_size: int, steps: int, optimizer: str, beside: Any
) -> None:
    expected, plain = by_hand(build_model, batch_size, optimizer)
    built, outcome = train_here(
        workload(build_model, optimizer=optimizer, shuffle=False),
        GradientAccumulation(steps=steps), *beside, folder=tmp_path, batch_size=batch_size,
    )  # fmt: skip
    for name, values in expected.items():
        assert outcome.history[name] == pytest.approx(values, rel=1e-5)
    for ours, theirs in zip(built.model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert int(built.model.optimizer.iterations) == int(plain.optimizer.iterations)
    effect = built.stack.report_effects(built.run, built.model)["GradientAccumulation"]
    assert effect.applied, effect.detail


def normalized() -> Any:
    return network(keras.layers.BatchNormalization(name="norm"))


def spectral() -> Any:
    return network(keras.layers.SpectralNormalization(keras.layers.Dense(4), name="spectral"))


def with_states() -> Any:
    words = keras.Input(batch_shape=(20, 6), dtype="int32")
    states = layers.GRU(4, stateful=True, name="gru")(layers.Embedding(20, 4)(words))
    return keras.Model(words, layers.Dense(3)(states))


def masked() -> Any:
    embedding = layers.Embedding(20, 4, mask_zero=True)
    return keras.Sequential([keras.Input((6,), dtype="int32"), embedding, layers.Dense(1)])


ONE_A_WORD = (WORDS, np.ones((40, 6, 1), "float32"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"build_model": with_states}, 'the layer "gru" carries states'),
        ({"build_model": normalized}, 'the layer "norm" normalizes over the batch'),
        ({"build_model": spectral}, 'vector_u" changes in each step'),
        pytest.param(
            {"build_model": lambda: with_own_step(network())},
            'the class "Own" has a train_step of its own',
            marks=pytest.mark.thorough,
        ),
        pytest.param({"loss": "sum"}, 'has the reduction "sum"', marks=pytest.mark.thorough),
        pytest.param(
            {"build_model": masked, "train": ONE_A_WORD, "loss": "mse", "metrics": []},
            "the outputs have a mask",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_what_parts_would_change_is_left_as_it_is_and_named(tmp_path, changes, reason):
    if changes.get("loss") == "sum":
        changes = {"loss": loss("sum")}
    built, _ = train_here(
        workload(**changes), GradientAccumulation(steps=2), folder=tmp_path, batch_size=20, epochs=1
    )
    effect = built.stack.report_effects(built.run, built.model)["GradientAccumulation"]
    assert not effect.applied
    assert reason in effect.detail
