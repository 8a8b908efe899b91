"""A training whose updates are made by kernels has the numbers of plain Keras."""

from typing import Any

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, layers
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_training.fused_optimizer import FusedOptimizer
from tfopt_training.gradient_accumulation import GradientAccumulation

from tfopt_core import Workload

EXAMPLES, WORDS, VOCABULARY, BATCH_SIZE, EPOCHS = 37, 6, 20, 8, 2
X = np.random.default_rng(0).integers(0, VOCABULARY, (EXAMPLES, WORDS))
Y = (X.sum(1) % 3).astype("int32")
# Relative, after two epochs: the kernel of Adam computes 1 - beta_2 in float32.
WITHIN = 1e-5
FUSED = FusedOptimizer(min_elements=1)
thorough = pytest.mark.thorough


def embedding(*beside: Any) -> Any:
    return keras.Sequential(
        [
            keras.Input((WORDS,)),
            layers.Embedding(VOCABULARY, 8, name="words"),
            *(beside or [layers.Flatten(), layers.Dense(3, "tanh")]),
            layers.Dense(3, name="logits"),
        ]
    )


def trained(folder: Any, *plugins: Any, optimizer: Any = "adam") -> Any:
    workload = Workload(
        train=(X, Y), build_model=embedding, optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )  # fmt: skip
    built, outcome = train_here(
        workload, *plugins, folder=folder, epochs=EPOCHS, batch_size=BATCH_SIZE
    )
    effects = built.stack.report_effects(built.run, built.model)
    return built.model, outcome.history["loss"], effects


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def fused(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("fused"), FUSED)


def assert_same(expected: Any, made: Any, within: float = WITHIN) -> None:
    assert made[1] == pytest.approx(expected[1], rel=within)
    for theirs, ours in zip(expected[0].get_weights(), made[0].get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=within, atol=within)


@pytest.mark.parametrize(
    "stack",
    [
        None,  # alone
        pytest.param([GradientAccumulation(steps=2), FUSED], marks=thorough),
    ],
)
def test_losses_and_weights_are_those_of_plain_keras(stack, tmp_path, plain, fused):
    made = fused if stack is None else trained(tmp_path, *stack)
    assert all(effect.applied for effect in made[2].values()), made[2]
    assert '/words/embeddings"' in made[2]["FusedOptimizer"].detail.split("rows of")[1]
    assert_same(plain, made)


@thorough
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_mixed_precision_the_numbers_are_those_of_keras_in_it(policy, tmp_path):
    precision = MixedPrecision(policy=policy, force=True)
    expected = trained(tmp_path / "plain", precision)
    made = trained(tmp_path / "fused", precision, FUSED)
    assert made[2]["FusedOptimizer"].applied
    assert_same(expected, made, within=1e-2)  # a rounding in bfloat16 is 4e-3


def test_a_saved_model_goes_on_in_plain_keras(tmp_path: Any, plain: Any, fused: Any) -> None:
    model, *_ = fused
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is keras.optimizers.Adam
    losses = [
        one.fit(X, Y, batch_size=BATCH_SIZE, shuffle=False, verbose=0).history["loss"]
        for one in (loaded, plain[0])
    ]
    assert losses[0] == pytest.approx(losses[1], rel=WITHIN)


def test_it_says_what_it_leaves_alone(tmp_path: Any) -> None:
    effect = trained(tmp_path, FusedOptimizer(min_elements=160))[2]["FusedOptimizer"]
    assert effect.applied
    assert effect.detail.startswith('rows of "sequential')
    assert '/words/embeddings"; left alone: "sequential' in effect.detail
    assert effect.detail.endswith(": fewer than 160 elements")
    effect = trained(tmp_path, FUSED, optimizer="lion")[2]["FusedOptimizer"]
    assert not effect.applied
    assert "the optimizer is Lion" in effect.detail
