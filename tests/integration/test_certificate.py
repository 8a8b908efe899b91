"""Replays of real trainings: exact plugins are certified, and plugins that lie are caught."""

import os
import time
from typing import ClassVar

import attrs
import numpy as np
import pytest
from support.cases import mostly_thorough
from support.in_process import InProcessRunner
from support.lazy_modules import keras
from support.measure_runs import make_request
from support.real_process import make_project
from support.tools import load_file
from tfopt_data.cache import Cache
from tfopt_data.materialize import Materialize
from tfopt_data.prefetch import Prefetch
from tfopt_model.l2 import L2
from tfopt_runtime.steps_per_execution import StepsPerExecution

from tfopt_core.data import Batch, Opaque
from tfopt_core.data import Cache as CacheStage
from tfopt_core.data.lower import lower_plan
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.certifying import Replays
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.training.input.sources import as_plan
from tfopt_core.training.replay import data as replay_data
from tfopt_core.training.replay.state import (
    LONGEST_START,
    restore_variables,
    save_variables,
    state_difference,
)
from tfopt_core.trials.processes import Processes, ReplayFailed
from tfopt_core.trials.request import Variant
from tfopt_core.workers.fork import ForkRunner

# Small networks on 90 points in batches of 8, the last one of 2.
POINTS = """
    import numpy as np
    from tfopt_core import DataPlan, Workload

    X = np.linspace(-1, 1, 180, dtype="float32").reshape(90, 2)
    Y = (X[:, :1] > 0).astype("float32") + X[:, 1:]

    def line():
        import keras
        return keras.Sequential([
            keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.2),
            keras.layers.BatchNormalization(), keras.layers.Dense(1),
        ])

    def two_inputs():
        import keras
        a, b = keras.Input((2,), name="a"), keras.Input((1,), name="b")
        hidden = keras.layers.Dense(8)(keras.layers.Concatenate()([a, b]))
        return keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(hidden))

    def halves():
        import keras

        class Halves(keras.utils.PyDataset):
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return X[index::2], Y[index::2]

        return Halves()

    def jitter(x, y):
        import tensorflow as tf
        return x + tf.random.normal(tf.shape(x)), y

    def fickle():
        rng = np.random.default_rng()
        for x, y in zip(X, Y):
            yield x + rng.normal(size=2).astype("float32"), y

    def build(kind="plain"):
        weights = np.ones(90, "float32")
        model = two_inputs if kind == "dict" else line
        train = {
            "plain": lambda: DataPlan.from_arrays(X, Y).map(lambda x, y: (x * 2, y)),
            "validated": lambda: (X, Y),
            "augmented": lambda: DataPlan.from_arrays(X, Y).map(jitter),
            "dict": lambda: ({"a": X, "b": X[:, :1]}, Y, weights),
            "pydataset": halves,
            "fickle": lambda: fickle,
        }[kind]()
        validation = (X[:30], Y[:30]) if kind == "validated" else None
        return Workload(
            train=train, validation=validation, build_model=model, optimizer="sgd", loss="mse"
        )
"""


@attrs.frozen(kw_only=True, eq=False)
class Exact(Plugin):
    """Declares that it changes nothing, and says what it does in its subclasses."""

    equivalence = "exact"


def second_for_first(dataset):
    return dataset.skip(1).concatenate(dataset.take(2).skip(1))


@attrs.frozen(kw_only=True, eq=False)
class Duplicates(Exact):
    @hookimpl
    def build_dataset(self, split, plan):
        return plan.insert(1, Opaque(function=second_for_first))


@attrs.frozen(kw_only=True, eq=False)
class Freezes(Exact):
    """Caches what is random: before the batches, so behind shuffle and augmentation."""

    @hookimpl
    def build_dataset(self, split, plan):
        return plan.insert(plan.find(Batch), CacheStage())


@attrs.frozen(kw_only=True, eq=False)
class Reorders(Exact):
    declared: str = "exact"

    def equivalence(self):
        return self.declared

    @hookimpl
    def build_dataset(self, split, plan):
        return plan.insert(plan.find(Batch), Opaque(function=lambda d: d.shuffle(90, seed=3)))


@attrs.frozen(kw_only=True, eq=False)
class ValidatesLess(Exact):
    @hookimpl
    def build_dataset(self, split, plan):
        return plan.first(20) if split == "validation" else plan


@attrs.frozen(kw_only=True, eq=False)
class BeginsElsewhere(Exact):
    @hookimpl
    def configure_training(self, options):
        class Sets(keras.callbacks.Callback):
            def on_train_begin(self, logs=None):
                weight = self.model.weights[0]
                weight.assign(weight * 1.1)

        return attrs.evolve(options, callbacks=(*options.callbacks, Sets()))


@attrs.frozen(kw_only=True, eq=False)
class Replaces(Exact):
    @hookimpl
    def wrap_model(self):
        return keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("replays"), 'name = "points"', points=POINTS)


def replay_of(made, equivalence, batches=None):
    """The certificate of the stack of these processes."""
    stack = Variant("full", made.request.plugins)
    return Replays(made, 7, batches).certificates([(stack, equivalence)]).get("full")


@pytest.fixture
def replayed(project, tmp_path):
    """`replayed(kind, *plugins)`: the certificate of these plugins, in this process."""

    def certificate(kind, *plugins, equivalence="exact", batches=None):
        made = processes(project, tmp_path, InProcessRunner(), stacked(*plugins), kind)
        return replay_of(made, equivalence, batches)

    return certificate


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "plugins"),
    [
        # 12 batches: the last call makes two steps
        pytest.param("plain", (StepsPerExecution(steps=5),), id="steps"),
        pytest.param("augmented", (Cache(storage="memory"), Prefetch()), id="augmented"),
    ],
)
def test_exact_plugins_are_certified(replayed, kind, plugins):
    certificate = replayed(kind, *plugins)
    assert certificate.certified, certificate.statement
    # what is exact is exact on a CPU: no digit differs
    words = "certified: 24 steps of 2 epochs replayed, losses and weights are identical"
    assert words in certificate.statement


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "plugin"),
    [
        ("plain", Reorders(declared="order")),
        ("pydataset", Materialize(order="batches", storage="memory")),
    ],
    ids=["plain", "pydataset"],
)
def test_another_order_of_the_same_examples_is_certified_as_such(replayed, kind, plugin):
    certificate = replayed(kind, plugin, equivalence="order")
    assert certificate.certified, certificate.statement
    assert "same training up to the order of examples" in certificate.statement
    assert "90 examples an epoch compared" in certificate.statement


CAUGHT = [
    ("plain", Duplicates(), "epoch 1 holds other examples"),
    ("plain", Freezes(), "epoch 2 repeats the order of epoch 1"),
    ("dict", BeginsElsewhere(), "it begins with other weights"),
    ("validated", ValidatesLess(), "examples of a validation (number 1): 20 instead of 30"),
]


@pytest.mark.parametrize(
    "case", mostly_thorough(CAUGHT, CAUGHT[:1], ids=lambda case: type(case[1]).__name__)
)
def test_a_plugin_that_declares_itself_exact_and_is_not_is_caught(replayed, case):
    kind, plugin, said = case
    certificate = replayed(kind, plugin)
    assert certificate.kind == "diverges", certificate.statement
    assert certificate.statement.startswith("declared exact, but ")
    assert said in certificate.statement


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["plain", "pydataset"])
def test_long_epochs_are_cut_alike_on_both_sides(replayed, kind):
    certificate = replayed(kind, StepsPerExecution(steps=2), batches=3)
    steps, cut = (4, "") if kind == "pydataset" else (6, "; epochs cut down to 3 batches")
    assert certificate.statement == (
        f"same training, certified: {steps} steps of 2 epochs replayed, losses and weights are "
        f"identical{cut}"
    )


@pytest.mark.thorough
def test_data_that_no_seed_repeats_accuse_no_plugin(replayed):
    certificate = replayed("fickle", Prefetch())
    assert certificate.kind == "impossible"
    assert "differ each time that they are built" in certificate.statement


def test_data_that_take_too_long_to_read_are_not_compared_whole(project):
    plan = as_plan(points(project).build().train, "train").batch(8)
    slow = replay_data.read_epochs(lower_plan(plan), now=iter(range(0, 10**6, 50)).__next__)
    side = replay_data.Replayed(steps=0, history={}, epochs=slow)
    assert side.unread == "the data are too large to compare whole"


def points(project):
    return load_file(project / "points.py")


def processes(project, folder, runner, plugins, kind="plain"):
    spec = WorkloadSpec(
        factory="points.py:build", options={"kind": kind}, epochs=5,
        batch_size=None if kind == "pydataset" else 8,
    )  # fmt: skip
    recipe = Recipe(name="points", workload=spec, path=project / "recipe.toml")
    environment = dict(os.environ)
    request = make_request(recipe=recipe, plugins=plugins, folder=folder, environment=environment)
    return Processes(request, runner)


def stacked(*plugins):
    return tuple(StackedPlugin(type(plugin).__name__, plugin) for plugin in plugins)


def test_a_stack_that_changes_the_algorithm_starts_no_process(project, tmp_path):
    def runner(*_):
        raise AssertionError("started")

    changing = stacked(Prefetch(), L2(strength=0.01))
    assert replay_of(processes(project, tmp_path, runner, changing), "changes") is None


def test_a_replay_that_fails_is_no_error_of_the_measurement(project, tmp_path):
    runner = InProcessRunner()
    certificate = replay_of(processes(project, tmp_path, runner, stacked(Replaces())), "exact")
    assert certificate.kind == "impossible"
    assert certificate.statement == (
        "no certificate: the replay with the stack failed: the trainings have different variables"
    )
    assert not (tmp_path / "replay" / "shared").exists()


class Timed(ForkRunner):
    """Notes when each process ran."""

    spans: ClassVar[list[tuple[float, float]]] = []

    def __call__(self, *given):
        begun = time.monotonic()
        try:
            return super().__call__(*given)
        finally:
            self.spans.append((begun, time.monotonic()))


class Alone(Processes):
    """Cannot replay the side without the stack."""

    def replay(self, variant, **given):
        if not variant.plugins:
            raise ReplayFailed("the replay without the stack failed: no data")
        return super().replay(variant, **given)


@pytest.mark.slow
@pytest.mark.thorough
def test_two_sides_that_may_are_replayed_at_the_same_time(project, tmp_path):
    with Timed() as runner:
        made = processes(project, tmp_path, runner, stacked(StepsPerExecution(steps=5)))
        stacks = [(Variant("full", made.request.plugins), "exact")]
        certificate = Replays(made, 7, together=True).certificates(stacks)["full"]
        assert certificate.certified
        [[begun, ended], [other_begun, other_ended]] = Timed.spans
        assert max(begun, other_begun) < min(ended, other_ended)
        # the other side does not wait for what never comes
        alone = Alone(made.request, runner)
        certificate = Replays(alone, 7, together=True).certificates(stacks)["full"]
        assert certificate.statement == (
            "no certificate: the replay without the stack failed: no data"
        )
        begun, ended = Timed.spans[-1]
        assert ended - begun < LONGEST_START


def test_weights_of_any_type_come_back(tmp_path):
    variables = [
        keras.Variable(np.array([1.5, -2.0]), dtype="bfloat16"),
        keras.Variable(7, dtype="int64"),
        keras.Variable(np.zeros(3), dtype="float32"),
    ]
    save_variables(tmp_path / "v.npz", variables)
    assert state_difference(tmp_path / "v.npz", variables) == 0.0
    variables[0].assign([1.0, -2.0])
    assert state_difference(tmp_path / "v.npz", variables) == pytest.approx(0.25)
    restore_variables(tmp_path / "v.npz", variables)
    assert state_difference(tmp_path / "v.npz", variables) == 0.0
    variables[2].assign([0.0, np.nan, 0.0])
    assert state_difference(tmp_path / "v.npz", variables) == np.inf
