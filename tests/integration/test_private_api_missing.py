"""A private member that is missing disables its feature, says so, and disables nothing else."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import build_here, train_here
from support.lazy_modules import keras, tf
from tfopt_data.augment import Augment
from tfopt_data.frozen_prefix import halves
from tfopt_data.rewrite import Rewrite, effect
from tfopt_distribute.mirrored import Mirrored
from tfopt_model.fused_transformer import FusedTransformer
from tfopt_model.l2 import L2
from tfopt_observe.profile import Profile
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.split_batch import SplitBatch
from tfopt_runtime.xla import Xla
from tfopt_training.fused_optimizer import FusedOptimizer
from tfopt_training.gradient_accumulation import GradientAccumulation
from tfopt_training.lr_schedule import with_fixed_rate

from tfopt_core import DataPlan, Workload, private_api
from tfopt_core.data.anatomy import random_ops
from tfopt_core.data.dissect import steps, walk
from tfopt_core.data.lower import lower
from tfopt_core.diagnosis import step_graph
from tfopt_core.errors import PluginRefused, WorkloadError
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.private_api import FEATURES, all_missing, disabled_so_far
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.toolkit import graphs
from tfopt_core.training.callbacks import batch_callbacks, unset_initial_epoch
from tfopt_core.training.checkpoints import state
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.input import sources
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.loops.train_functions import why_no_loop
from tfopt_core.training.model import loss_scaling, precision
from tfopt_core.training.model.layers import output_losses_weighed
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import PrepareTask

X = np.random.default_rng(3).random((32, 6), "float32")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Hide the members of a feature that no other one needs; what is said of it then."""

    def hide(name: str) -> str:
        own = set(FEATURES[name].each())
        others = {m for one in FEATURES if one != name for m in FEATURES[one].each()}
        hidden = own - others or own  # or others are disabled with it
        monkeypatch.setattr(private_api, "_asked", {})
        there = lambda *member: member not in hidden and is_there(*member)  # noqa: E731
        monkeypatch.setattr(private_api, "is_there", there)
        return private_api._why_disabled(FEATURES[name])

    is_there = private_api.is_there
    return hide


def test_the_installed_versions_have_every_member():
    assert all_missing() == ()


# Data sets of tf.data


def test_a_data_set_that_a_function_is_given_is_counted_by_nothing_without_it(without):
    without("data-sets-of-functions")
    draws, data = ShuffleDraws(), _range().shuffle(4)
    draws.install()
    tf.function(lambda data: data.reduce(np.int64(0), lambda one, other: one + other))(data)
    draws.remove()
    assert not draws.is_uncounted(data)


def _range() -> Any:
    return tf.data.Dataset.range(4)


def test_every_feature_is_simulated_here():
    text = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in FEATURES if f'"{name}"' not in text} == set()


def _in_one_piece(dataset: Any) -> bool:
    plan = DataPlan.from_dataset(dataset)
    return plan.source.origin == "dataset" and lower(plan) is dataset


@pytest.mark.parametrize(
    ("feature", "step"),
    [
        ("data-steps", lambda data: data.map(lambda x: x + 1)),
        ("shuffles-rebuilt", lambda data: data.shuffle(4, seed=1, reshuffle_each_iteration=False)),
    ],
)
def test_what_several_steps_need_leaves_them_in_one_piece(without, feature, step):
    dataset = step(_range())
    assert not _in_one_piece(dataset)
    sentence = without(feature)
    assert _in_one_piece(dataset)
    assert disabled_so_far() == (sentence,)


def test_a_step_that_cannot_be_read_leaves_the_data_before_it_in_one_piece(without, monkeypatch):
    dataset = _range().take(3)
    assert not _in_one_piece(dataset)
    sentence = without("data-kinds")
    monkeypatch.setitem(steps._STEPS, "_TakeDataset", lambda dataset: dataset._renamed)
    assert _in_one_piece(dataset)
    assert sentence in disabled_so_far()


def test_a_rewrite_of_data_that_cannot_be_read_does_not_count_as_applied(without):
    sentence = without("data-sets")
    done = Rewrite(DataPlan.from_arrays(X), done="cached")
    run = SimpleNamespace(
        state_of=lambda plugin: {"rewrites": {"train": done}},
        datasets={"train": _range().cache().batch(2)},
    )
    shown = effect(None, run, "Cache")  # type: ignore[arg-type]
    assert not shown.applied
    assert sentence in shown.detail


def test_a_piece_that_is_not_known_counts_as_another_one_each_time(without):
    def source() -> Any:
        dataset = _range().apply(tf.data.experimental.assert_cardinality(4))
        return DataPlan.from_dataset(dataset).source

    assert source().deterministic
    sentence = without("data-repeats")
    assert not source().deterministic
    assert sentence in disabled_so_far()


# Models and trainings


def small_model() -> Any:
    inputs = keras.Input((6,))
    return keras.Model(inputs, keras.layers.Dense(1, name="out")(keras.layers.Dense(3)(inputs)))


def workload(**changes: Any) -> Workload:
    plain = Workload(train=DataPlan.from_arrays(X, X[:, :1]), validation=None, optimizer="sgd",
                     build_model=small_model, loss="mse", batch_size=8)  # fmt: skip
    return attrs.evolve(plain, **changes)


def effect_of(built: Any) -> Any:
    [effect] = built.stack.report_effects(built.run, built.model).values()
    return effect


def called_graphs() -> Any:
    inner = tf.function(lambda x: x + 1)
    outer = tf.function(lambda x: inner(x)).get_concrete_function(tf.constant(1))
    [call] = [op for op in outer.graph.get_operations() if "Call" in op.type]
    return step_graph.called_graphs(call)


def overflow_steps() -> Any:
    model = small_model()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    policy = PrecisionPolicy(policy="mixed_float16", loss_scale="dynamic")
    loss_scaling.prepare_scaling(model, policy, 1)
    return loss_scaling.overflow_steps(model.optimizer)


def random_state_of_keras() -> Any:
    keras.random.uniform((1,))  # makes the global generator
    return state.capture_random()["keras"]


def mapped() -> DataPlan:
    return DataPlan.from_arrays(X).map(lambda x: x + 1)


@pytest.mark.parametrize(
    ("feature", "read", "unknown"),
    [
        ("called-graphs", called_graphs, [None]),
        ("optimized-graphs", lambda: graphs.optimized_graph(lambda: None), None),
        ("overflow-count", overflow_steps, None),
        ("keras-random-state", random_state_of_keras, None),
        ("shuffle-orders", lambda: walk.passes_to_read(_range()), "every"),
        (
            "random-operations",
            lambda: bool(random_ops(DataPlan.from_arrays(X).map(lambda x: x + 1), 1)),
            True,
        ),
        # by the word of the layers
        ("xla-support", lambda: step_graph.supports_xla(small_model()), True),
    ],
)
def test_what_cannot_be_read_without_it_is_unknown(without, feature, read, unknown):
    sentence = without(feature)
    assert read() == unknown
    assert disabled_so_far() == (sentence,)


def test_an_optimizer_that_cannot_be_renamed_is_warned_of(without):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model = small_model()
    model.compile(optimizer=keras.optimizers.SGD(schedule), loss="mse")
    model.fit(X, X[:, :1], verbose=0)
    sentence = without("optimizer-replaced")
    with pytest.warns(UserWarning, match="names the schedule") as warned:
        with_fixed_rate(model)
    assert sentence in str(warned[0].message)


def test_where_the_count_is_unknown_keras_trains(without, tmp_path):
    sentence = without("unknown-counts")
    built = build_here(workload(), folder=tmp_path)
    chunked = attrs.evolve(built, training=attrs.evolve(built.training, loop="chunked"))
    assert not why_no_loop(chunked)
    assert why_no_loop(attrs.evolve(chunked, batches={})) == sentence


def test_where_a_tensorboard_does_not_tell_whether_it_traces_it_acts_on_batches(without):
    without("tensorboard")
    assert batch_callbacks([keras.callbacks.TensorBoard("logs")]) == ("TensorBoard",)


def on_replicas(strategy: Any) -> Any:
    workload = SimpleNamespace(own_strategy=None)
    return distribution_of(
        SimpleNamespace(run=SimpleNamespace(strategy=strategy), workload=workload)
    )


@pytest.mark.parametrize(
    ("feature", "error", "call"),
    [
        ("data-sets", WorkloadError, lambda folder: DataPlan.from_dataset(_range())),
        ("nested-layers", PluginRefused, lambda path: build_here(workload(), L2(), folder=path)),
        ("nested-layers", WorkloadError, lambda folder: precision.keep_in_float32(
            small_model(), PrecisionPolicy(policy="mixed_bfloat16", float32_layers=("dense*",)))),
        ("layer-draws", PluginRefused, lambda folder: build_here(
            workload(), Augment(layers=({"layer": "RandomBrightness", "factor": 0.1},)),
            folder=folder)),
        ("fit-resumed", WorkloadError, lambda folder: unset_initial_epoch(
            small_model(), [keras.callbacks.BackupAndRestore(folder / "b")])),
        ("class-weights", WorkloadError,
         lambda folder: sources.with_class_weight(_range().map(lambda x: (x, x)), {0: 1.0})),
        ("script-fits", WorkloadError, lambda folder: FitWorkload.of(None, None)),
        ("replicas", WorkloadError,
         lambda folder: on_replicas(tf.distribute.MirroredStrategy(["CPU:0"]))),
    ],
)  # fmt: skip
def test_what_needs_it_is_refused(without, tmp_path, feature, error, call):
    sentence = without(feature)
    with pytest.raises(error) as refused:
        call(tmp_path)
    assert sentence in str(refused.value)


def test_what_does_not_need_them_goes_on(without, tmp_path):
    for feature in ("data-sets", "nested-layers", "fit-resumed", "replicas"):
        without(feature)
    unset_initial_epoch(small_model(), [keras.callbacks.History()])
    assert on_replicas(tf.distribute.get_strategy()) is None
    _, outcome = train_here(workload(), folder=tmp_path)
    assert outcome.epochs == 2
    assert set(outcome.history) == {"loss"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("feature", "plugin"),
    [
        ("attention", FusedTransformer()),
        ("profiler-traces", Profile(steps=1, skip=1)),
        ("xla-choice", Xla()),
        ("optimizer-slots", FusedOptimizer(min_elements=1)),
        ("output-masks", SplitBatch(parts=2, xla=False)),
        ("loss-masks", GradientAccumulation(steps=2)),
    ],
)
def test_without_what_its_result_hangs_on_a_plugin_trains_as_before_and_says_so(
    without, tmp_path, feature, plugin
):
    sentence = without(feature)
    built, outcome = train_here(workload(), plugin, folder=tmp_path)
    assert outcome.epochs == 2
    assert sentence in effect_of(built).detail


@pytest.mark.parametrize(("there", "count"), [(True, 5.0), (False, 2.0)])
def test_the_logged_losses_of_outputs_are_left_to_keras_without_it(without, there, count):
    inputs = keras.Input((6,))
    ends = {name: keras.layers.Dense(1, name=name)(inputs) for name in ("one", "two")}
    model = keras.Model(inputs, ends)
    model.compile("sgd", {"one": "mse", "two": "mse"})
    model.train_on_batch(X, {"one": X[:, :1], "two": X[:, :1]})
    [loss] = [one for one in model.metrics if one.name == "one_loss"]
    loss.reset_state()
    if not there:
        without("output-losses")
    with output_losses_weighed(model, 5.0):
        loss.update_state(1.0, sample_weight=2.0)
    assert float(loss.count) == count


def test_class_weights_are_left_to_keras_own_loop(without, tmp_path):
    sentence = without("class-weights")
    built = build_here(workload(class_weight={0: 1.0}), folder=tmp_path)
    resident = attrs.evolve(built, training=attrs.evolve(built.training, loop="resident"))
    assert why_no_loop(resident) == sentence


def test_communication_is_not_read_back(without):
    sentence = without("strategies-read-back")
    extended = SimpleNamespace(worker_devices=("/device:CPU:0", "/device:CPU:1"))
    strategy = SimpleNamespace(num_replicas_in_sync=2, extended=extended)
    run = SimpleNamespace(strategy=strategy, replicas=2)
    effect = Mirrored(communication="reduce-to-one").report_effect(run, None)
    assert effect.applied
    assert sentence in effect.detail


def test_without_the_graph_of_layers_no_model_is_cut_into_its_frozen_part_and_the_rest(without):
    sentence = without("model-cut")
    assert halves(small_model()) == sentence
    assert disabled_so_far() == (sentence,)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("plugin", "missed", "tolerance"),
    [
        (Chunked(steps=2, xla=False), {"layer-names", "own-strategy", "strategies-apart"}, 1e-6),
        # its output is rounded too, where the layers of outputs are not known
        (MixedPrecision(policy="mixed_bfloat16"), {"output-layers"}, 0.01),
    ],
)
def test_without_any_member_a_stack_trains_as_with_them_and_what_it_misses_is_a_warning(
    plugin, missed, tolerance, tmp_path, monkeypatch
):
    given = workload()
    _, whole = train_here(given, plugin, folder=tmp_path / "with", batch_size=8, seed=3)
    monkeypatch.setattr(private_api, "_asked", {})
    monkeypatch.setattr(private_api, "is_there", lambda *member: False)
    built, bare = train_here(given, plugin, folder=tmp_path / "without", batch_size=8, seed=3)
    np.testing.assert_allclose(bare.history["loss"], whole.history["loss"], rtol=tolerance)
    assert missed <= private_api._asked.keys()
    task = PrepareTask(job=built.job)
    told = prepare(task, print, lambda job: given).warnings
    assert {*disabled_so_far()} <= {*told}
