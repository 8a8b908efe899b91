"""A training loop of a script's own: watched, changed by a stack, and measured as a whole."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from support.forked_command import runs_forked
from support.in_process import script_job
from support.lazy_modules import keras, tf
from support.placed_scripts import SCRIPTS, one_run, placed, recipe_for
from tfopt_data.cache import Cache
from tfopt_data.prefetch import Prefetch
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.xla import Xla

from tfopt_core.commands.first_contact import look_at
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.hooks.own_loop import reaching
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.report.style.console import make_console
from tfopt_core.scripts.own.loop import NOT_WATCHED
from tfopt_core.scripts.running import ScriptEnd
from tfopt_core.scripts.session import Session
from tfopt_core.training.messages import OWN_LOOP
from tfopt_core.trials.scripts.own_loop import LoopOfScript
from tfopt_core.trials.scripts.work import ScriptTraining
from tfopt_core.workers.supervise import Limits
from tfopt_core.workers.task import RunTask

SEED = 5


@contextmanager
def watched(folder: Path, *plugins: Any) -> Iterator[LoopOfScript]:
    """A loop of this test's own under these plugins."""
    job = script_job(*plugins, folder=folder, seed=SEED, loop="own")
    reached = attrs.evolve(job, plugins=reaching(job.plugins))
    session = Session(reached, lambda fit, started: None)
    session.begin()
    own = LoopOfScript(session=session, job=job, guard=lambda act: act())
    own.begin()
    try:
        yield own
        own.at_the_end()
    finally:
        own.remove()
        session.end()


def examples() -> tuple[Any, Any]:
    x = np.random.default_rng(1).normal(size=(96, 8)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def network() -> Any:
    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
    )


def step_of(model: Any, optimizer: Any) -> Any:
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.cast(model(x), tf.float32) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return train_step


def losses_of(epochs: int = 2, validation: bool = False) -> list[float]:
    """Train over a shuffled data set, step by step in a tf.function; the loss of each step."""
    model, optimizer = network(), keras.optimizers.SGD()
    step = tf.function(step_of(model, optimizer))
    data = tf.data.Dataset.from_tensor_slices(examples()).map(lambda x, y: (x * 2.0, y))
    train, held_out = data.shuffle(96, seed=3).batch(32), data.batch(48)
    losses = []
    for _ in range(epochs):
        losses += [float(step(x, y)) for x, y in train]
        if validation:
            losses += [float(tf.reduce_mean(model(x))) for x, _ in held_out]
    return losses


def test_updates_in_a_graph_are_counted_as_often_as_they_run(tmp_path):
    with watched(tmp_path) as own:
        model, optimizer = network(), keras.optimizers.SGD()
        step = step_of(model, optimizer)
        data = tf.data.Dataset.from_tensor_slices(examples()).batch(8)

        @tf.function
        def epoch() -> None:
            for x, y in data:
                step(x, y)

        epoch()
        epoch()
    assert own.clock.updates == 24
    assert own.eager is None
    assert own.data.in_graph
    assert own.clock.blocks[0].cold == "trace"


def test_two_optimizers_of_a_gan_make_two_updates_and_an_eager_step_is_named_with_its_line(
    tmp_path,
):
    with watched(tmp_path) as own:
        x, y = examples()
        for optimizer in (keras.optimizers.SGD(), keras.optimizers.Adam()):
            step = step_of(network(), optimizer)
            for _ in range(3):
                step(x, y)
    assert own.clock.updates == 6
    (finding,) = own.findings()
    assert finding.kind == "runs-eagerly"
    assert finding.mend == "put @tf.function above def train_step"
    file, _, line = finding.place.rpartition(":")
    assert Path(file) == Path(__file__)
    assert Path(file).read_text().splitlines()[int(line) - 1].strip().startswith("def train_step")


def unfinished_model() -> Any:
    """A model whose constructor raised, as a script may keep it in a traceback."""
    kept: list[Any] = []

    class Unfinished(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            kept.append(self)
            raise ValueError("no units")

    with pytest.raises(ValueError, match="no units"):
        Unfinished()
    return kept.pop()


def test_batches_that_are_trained_alone_are_updates_too(tmp_path):
    with watched(tmp_path) as own:
        left_behind, model = unfinished_model(), network()
        model.compile("sgd", "mse")
        x, y = examples()
        for begin in range(0, 96, 32):
            model.train_on_batch(x[begin : begin + 32], y[begin : begin + 32])
        report = own.run_report()
        assert not hasattr(left_behind, "built")
    assert own.clock.updates == 3
    (fit,) = report.fits
    assert (fit.name, fit.steps, fit.history) == (OWN_LOOP, 3, {})
    assert fit.trainable_parameters == 8 * 16 + 16 + 16 + 1
    assert report.wall_seconds == fit.wall_seconds > 0
    assert fit.diverged is None


@pytest.mark.thorough
@pytest.mark.promise(16, injected="labels of nan in a training loop of the script's own")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("graph", 'the weight "[^"]+kernel" is not finite after update 2'),
        ("eager", "the loss was nan at update 2"),
        ("train_on_batch", "the loss was nan at update 2"),
    ],
)
def test_a_run_whose_own_loop_diverges_does_not_count(tmp_path, how, message):
    with watched(tmp_path) as own:
        model = network()
        model.compile("sgd", "mse")
        step = step_of(model, keras.optimizers.SGD())
        step = {"graph": tf.function(step), "train_on_batch": model.train_on_batch}.get(how, step)
        for scale in (1.0, np.nan):
            x, y = examples()
            step(x, scale * y)
        task = RunTask(job=own.job)
        report = ScriptTraining(task, print, own=own).report(ScriptEnd(status=0))
    assert re.fullmatch(message, report.why_failed)
    assert (NOT_WATCHED in report.notes) is (how == "graph")


@pytest.mark.thorough
def test_a_function_that_is_traced_for_each_new_argument_is_a_finding(tmp_path):
    with watched(tmp_path) as own:
        step = tf.function(step_of(network(), keras.optimizers.SGD()))
        x, y = examples()
        for count in range(10, 16):
            step(x[:count], y[:count])
    (finding,) = own.findings()
    assert finding.kind == "retracing"
    assert "traced in 6 calls within 6 updates" in finding.detail


@pytest.mark.thorough
def test_with_data_plugins_the_loop_trains_on_the_same_batches(tmp_path):
    plain = losses_of(validation=True)
    with watched(tmp_path, Cache(storage="memory", memory_mib=16), Prefetch(), Xla()) as own:
        ours = losses_of(validation=True)
        effects = own.effects()
    assert ours == plain
    assert [one.split for one in own.data.sets] == ["train", "validation"]
    assert [one.passes for one in own.data.sets] == [2, 2]
    assert effects["prefetch"].applied
    assert effects["cache"].applied
    assert "train: " in effects["cache"].detail
    assert "validation: " in effects["cache"].detail
    assert not effects["xla"].applied
    assert "configure_training" in effects["xla"].detail


@pytest.mark.parametrize("reads", ["Keras", "a function"])
def test_what_else_reads_the_data_between_epochs_moves_their_order_on(tmp_path, reads):
    def first_rows():
        data = tf.data.Dataset.from_tensor_slices(examples()[0]).shuffle(96, seed=3)
        data, rows = data.map(lambda x: x * 2.0).batch(32), []

        @tf.function
        def weighted(data):
            total = 0.0
            for batch in data:
                total = 0.5 * total + batch[0, 0]
            return total

        for _ in range(3):
            rows += [batch[0, 0].numpy() for batch in data]
            if reads == "Keras":
                keras.layers.Normalization().adapt(data)
            else:
                rows += [weighted(data).numpy() for _ in range(2)]
        return rows

    plain = first_rows()
    with watched(tmp_path, Cache(storage="memory", memory_mib=16)) as own:
        ours = first_rows()
        assert own.effects()["cache"].applied
    assert ours == plain


def test_a_data_set_that_each_epoch_makes_anew_is_training_data_in_all_of_them(tmp_path):
    model, optimizer = network(), keras.optimizers.SGD()
    step, data = step_of(model, optimizer), tf.data.Dataset.from_tensor_slices(examples())
    with watched(tmp_path, Prefetch()) as own:
        for _ in range(3):
            for x, y in data.batch(32):
                step(x, y)
            for x, _ in data.batch(32):
                model(x)
        effects = own.effects()
    assert [one.split for one in own.data.sets] == ["train", "validation"] * 3
    assert "train: prefetch" in effects["prefetch"].detail


def test_what_keras_iterates_over_is_left_alone(tmp_path):
    data = tf.data.Dataset.from_tensor_slices(examples()[0]).batch(32)
    with watched(tmp_path, Prefetch()) as own:
        keras.layers.Normalization().adapt(data)
        effects = own.effects()
    assert own.data.sets == []
    assert effects["prefetch"].detail == "the script's loop iterates over no tf.data.Dataset"


def test_bfloat16_is_read_back_from_the_models_that_were_trained(tmp_path):
    with watched(tmp_path, MixedPrecision(policy="mixed_bfloat16")) as own:
        losses_of(epochs=1)
        effect = own.effects()["mixedprecision"]
    assert effect.applied
    assert "2 of 2 layers with weights compute in bfloat16" in effect.detail


def test_everything_is_put_back(tmp_path):
    function = type(tf.function(lambda: None))

    def replaced() -> list[Any]:
        return [
            function.__call__, tf.GradientTape.__enter__, tf.data.Dataset.__iter__,
            tf.data.Dataset.reduce, type(elements).__next__, keras.optimizers.Optimizer.apply,
            tf.GradientTape.gradient,
        ]  # fmt: skip

    elements = iter(tf.data.Dataset.range(1))
    before = replaced()
    with watched(tmp_path):
        list(tf.data.Dataset.range(1))
        assert all(one is not other for one, other in zip(replaced(), before, strict=True))
    assert replaced() == before


# Whole processes


@pytest.mark.thorough
@pytest.mark.slow
def test_a_measured_run_ends_after_its_last_update_and_names_what_took_effect(tmp_path):
    recipe = recipe_for(
        placed(tmp_path, "eager_tape_conv"),
        'loop = "own"', 'args = ["--images", "512"]', "max_steps = 11",
        "[[plugins]]", 'use = "prefetch"', "[[plugins]]", 'use = "xla"',
    )  # fmt: skip
    run = one_run(recipe)
    assert run.error is None
    assert run.fit.name == OWN_LOOP
    assert run.fit.steps == 11  # of 16
    assert run.fit.complete
    assert run.fit.metrics == {}
    assert run.effects["prefetch"].applied
    assert not run.effects["xla"].applied
    assert run.wall_seconds == run.fit.wall_seconds


STEPS = """
import keras
import numpy as np
import tensorflow as tf

x, y = np.ones((64, 3), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
"""
BY_HAND = "    model.trainable_variables[0].assign_sub(0.1 * gradients[0])\n"
THEN_BY_FIT = """    model.optimizer.apply(gradients, model.trainable_variables)
model.fit(x, y, verbose=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("updates", "said"),
    [
        (BY_HAND, "never calls an optimizer of Keras"),
        (THEN_BY_FIT, "trains in a loop of its own and by fit() too"),
    ],
    ids=["by hand", "then by fit"],
)
def test_a_script_that_cannot_be_measured_by_its_loop_is_told_why(tmp_path, updates, said):
    script = tmp_path / "script.py"
    script.write_text(STEPS + updates)
    run = one_run(recipe_for(script, 'loop = "own"'))
    assert not run.ok
    assert said in run.error


# Each loop is watched for a moment only; a look ends its process.
HASTY = """
from tfopt_core.trials.scripts import own_loop as look

look.LOOK_SECONDS = 0.2
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_first_contact_finds_the_loop_and_writes_it_into_the_recipe(tmp_path, monkeypatch):
    text = (SCRIPTS / "eager_tape_conv.py").read_text()
    (tmp_path / "loop.py").write_text(f"{HASTY}\n{text}")
    monkeypatch.chdir(tmp_path)
    options = ApplyOptions(target="loop.py", arguments=("--epochs", "50"), measure_anyway=True)
    spec = WorkloadSpec(script="loop.py", args=("--epochs", "50"))
    with runs_forked():
        contact = look_at(options, spec, Limits(), make_console(quiet=True))
    diagnosed = contact.diagnosed
    assert diagnosed.own_loop
    assert not diagnosed.dispatch_known
    assert "runs-eagerly" in {finding.kind for finding in diagnosed.findings}
    assert contact.workload["loop"] == "own"
    assert contact.workload["max_steps"] == diagnosed.steps_per_epoch
    assert 'loop = "own"' in contact.text()
