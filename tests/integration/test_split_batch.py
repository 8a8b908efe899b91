"""A training whose batches are split has the losses of plain Keras; what cannot be is named."""

from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras, layers
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident
from tfopt_runtime.split_batch import SplitBatch

from tfopt_core import Workload
from tfopt_core.hooks.own_loop import configured_runtime
from tfopt_core.toolkit import loop_report
from tfopt_core.trials.dry_build import prepare
from tfopt_core.trials.step_timing import time_steps, wrapped_step
from tfopt_core.workers.task import PrepareTask

# Batches of 8 and one of 5, which does not divide by two; so many words in each text.
EXAMPLES, WORDS, BATCH_SIZE, EPOCHS = 37, 6, 8, 2
X = np.random.default_rng(0).integers(0, 20, (EXAMPLES, WORDS))
Y = (X.sum(1) % 3).astype("int32")
SAMPLE_WEIGHTS = np.random.default_rng(1).random(EXAMPLES).astype("float32")
# Relative, after two epochs: sums in another order.
WITHIN = 1e-4
SPLIT, COMPILED = SplitBatch(parts=2, xla=False), SplitBatch(parts=2, xla=True)
OWN_CORES = SplitBatch(parts=2, xla=False, own_cores=True)


def attending(*beside: Any) -> Any:
    """A small Transformer; layers may be put before its outputs."""
    text = keras.Input((WORDS,), dtype="int32")
    hidden = layers.Embedding(20, 8)(text)
    hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(2, 4)(hidden, hidden))
    hidden = layers.GlobalAveragePooling1D()(hidden)
    for layer in beside:
        hidden = layer(hidden)
    return keras.Model(text, layers.Dense(3, kernel_regularizer="l2")(hidden))


def workload(build_model: Any = attending) -> Workload:
    return Workload(
        train=(X, Y, SAMPLE_WEIGHTS), validation=(X[::-1], Y), build_model=build_model,
        optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )  # fmt: skip


def averaging() -> Any:
    """A network that XLA compiles soon."""
    text = keras.Input((WORDS,), dtype="int32")
    hidden = layers.GlobalAveragePooling1D()(layers.Embedding(20, 8)(text))
    return keras.Model(text, layers.Dense(3, kernel_regularizer="l2")(hidden))


def trained(folder: Any, *plugins: Any, build_model: Any = attending, epochs: int = EPOCHS) -> Any:
    built, outcome = train_here(
        workload(build_model), *plugins, folder=folder, epochs=epochs, batch_size=BATCH_SIZE
    )
    return built, outcome.history, built.stack.report_effects(built.run, built.model)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Any:
    return trained(tmp_path_factory.mktemp("plain"))[1]


@pytest.mark.parametrize(
    "stack",
    [[SPLIT], [OWN_CORES], pytest.param([Resident(xla=False), SPLIT], marks=pytest.mark.thorough)],
)
def test_losses_and_metrics_are_those_of_plain_keras(stack: Any, tmp_path: Any, plain: Any) -> None:
    assert_trains_as(plain, stack, tmp_path)


@pytest.mark.thorough
def test_a_loop_that_xla_would_compile_whole_leaves_that_to_the_parts(tmp_path):
    plain = trained(tmp_path / "plain", build_model=averaging)[1]
    built = assert_trains_as(plain, [Chunked(steps=2, xla=True), COMPILED], tmp_path, averaging)
    assert loop_report(built.model).compiled_steps == 0


def assert_trains_as(plain: Any, stack: Any, folder: Any, build_model: Any = attending) -> Any:
    """Train with the stack as without. Return what was built."""
    built, history, effects = trained(folder, *stack, build_model=build_model)
    assert all(effect.applied for effect in effects.values()), effects
    assert set(history) == set(plain)
    for name, values in plain.items():
        assert history[name] == pytest.approx(values, rel=WITHIN), name
    assert "call" not in vars(built.model)
    return built


@pytest.mark.thorough
def test_validations_are_in_parts_only_where_each_has_cores_of_its_own_and_the_training_is(
    tmp_path: Any, plain: Any
) -> None:
    built, _, effects = trained(tmp_path / "parts", OWN_CORES)
    assert "2 parts of each batch, in validations too" in effects["SplitBatch"].detail
    assert not {"train_step", "test_step"} & set(vars(built.model))
    later = built.model.evaluate(built.run.datasets["validation"], return_dict=True, verbose=0)
    assert later["loss"] == pytest.approx(plain["val_loss"][-1], rel=WITHIN)
    # as a diagnosis times them
    tests = built.run.state_of(built.stack.plugins[0].plugin)["tests"]
    before = tests.traced
    with wrapped_step(built, "test"):
        built.model.evaluate(built.run.datasets["validation"], verbose=0)
    assert tests.traced > before
    assert "test_step" not in vars(built.model)
    assert "validations" not in trained(tmp_path / "others", SPLIT)[2]["SplitBatch"].detail

    def normalized() -> Any:
        return attending(layers.BatchNormalization())

    built, _, effects = trained(tmp_path / "whole", OWN_CORES, build_model=normalized)
    assert not effects["SplitBatch"].applied
    assert built.run.state_of(built.stack.plugins[0].plugin)["tests"].traced == 0


@pytest.mark.thorough
def test_a_model_that_is_not_built_yet_has_the_weights_of_plain_keras(tmp_path: Any) -> None:
    def unbuilt() -> Any:
        from keras import Sequential, layers

        return Sequential([layers.Embedding(20, 5), layers.Flatten(), layers.Dense(3)])

    expected = trained(tmp_path / "plain", build_model=unbuilt)[1]
    _, history, effects = trained(tmp_path / "split", SPLIT, build_model=unbuilt)
    assert effects["SplitBatch"].applied
    assert history["loss"] == pytest.approx(expected["loss"], rel=WITHIN)


@pytest.mark.thorough
def test_builds_are_timed_with_the_step_that_plugins_wrap(tmp_path: Any) -> None:
    traced = []

    def dense() -> Any:
        return keras.Sequential([keras.Input((WORDS,)), keras.layers.Dense(3)])

    def build(parts: int) -> Any:
        plugin = SplitBatch(parts=parts, xla=False)
        built = build_here(workload(dense), plugin, folder=tmp_path, batch_size=BATCH_SIZE)
        traced.append(built.run.state_of(plugin))
        return built

    def fail() -> Any:
        raise ValueError("no such training")

    whole, split, failed = time_steps([lambda: build(1), lambda: build(2), fail], seconds=0.01)
    assert 0 < whole.step_seconds < float("inf") > split.step_seconds > 0
    assert "no such training" in failed.why_not
    assert traced[1]["calls"].traced


@pytest.mark.thorough
@pytest.mark.parametrize(("beside", "threads"), [((), ["1"]), (("BatchNormalization",), [])])
def test_a_plan_shows_the_threads_that_runs_will_have(beside: Any, threads: Any, tmp_path: Any):
    def network() -> Any:
        return attending(*(getattr(layers, name)() for name in beside))

    plugin = SplitBatch(parts=2, xla=False, own_cores=True)
    job = build_here(workload(network), plugin, folder=tmp_path).job
    # what tfopt's own process was told before it started the one of the dry build
    _, changes = configured_runtime(job.plugins, job.machine, job.recipe)
    job = attrs.evolve(job, runtime_changes=changes)
    task = PrepareTask(job=job)
    [planned] = prepare(task, print, lambda job: workload(network)).plugins
    set_before = [one for one in planned.changes if one.hook == "configure_runtime"]
    shown = [words.split()[-1] for change in set_before for words in change.differences]
    assert shown == threads
    assert planned.settings["parts"] == (1 if beside else 2)
