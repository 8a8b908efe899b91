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
from tfopt_training.own_rate import with_fixed_rate

from tfopt_core import DataPlan, Workload, private_api
from tfopt_core.data.anatomy import random_ops
from tfopt_core.data.dissect import steps, walk
from tfopt_core.data.lower import lower
from tfopt_core.errors import PluginRefused, WorkloadError
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.private_api import FEATURES, all_missing, disabled_so_far
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.training.callbacks import unset_initial_epoch
from tfopt_core.training.checkpoints import state
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.input import sources
from tfopt_core.training.loops.train_functions import why_no_loop
from tfopt_core.training.model import graphs, loss_scaling, precision
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import PrepareTask

pytestmark = pytest.mark.tensorflow

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


def test_without_knowing_inputs_data_sets_are_refused_and_arrays_are_not(without, tmp_path):
    sentence = without("data-sets")
    with pytest.raises(WorkloadError) as refused:
        DataPlan.from_dataset(_range())
    assert str(refused.value) == sentence
    _, outcome = train_here(workload(), folder=tmp_path)
    assert outcome.epochs == 2
    # what cannot be confirmed does not count as applied
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


def test_without_their_seeds_all_earlier_passes_are_read(without):
    assert walk.passes_to_read(_range()) == "none"
    sentence = without("shuffle-orders")
    assert walk.passes_to_read(_range()) == "every"
    assert disabled_so_far() == (sentence,)


def test_without_the_registry_every_map_counts_as_random(without):
    def random() -> bool:
        # a function of its own each time: what was found of one is kept
        return bool(random_ops(DataPlan.from_arrays(X).map(lambda x: x + 1), 1))

    assert not random()
    sentence = without("random-operations")
    assert random()
    assert disabled_so_far() == (sentence,)


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
    return graphs.called_graphs(call)


def overflow_steps() -> Any:
    model = small_model()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    policy = PrecisionPolicy(policy="mixed_float16", loss_scale="dynamic")
    loss_scaling.prepare_scaling(model, policy, 1)
    return loss_scaling.overflow_steps(model.optimizer)


def random_state_of_keras() -> Any:
    keras.random.uniform((1,))  # makes the global generator
    return state.capture_random()["keras"]


@pytest.mark.parametrize(
    ("feature", "read", "unknown"),
    [
        ("called-graphs", called_graphs, [None]),
        ("optimized-graphs", lambda: graphs.optimized_graph(lambda: None), None),
        ("overflow-count", overflow_steps, None),
        ("keras-random-state", random_state_of_keras, None),
        # by the word of the layers
        ("xla-support", lambda: graphs.supports_xla(small_model()), True),
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


def test_without_nested_layers_plugins_that_need_them_refuse_and_others_train(without, tmp_path):
    sentence = without("nested-layers")
    with pytest.raises(PluginRefused) as refused:
        build_here(workload(), L2(), folder=tmp_path)
    assert sentence in str(refused.value)
    by_name = PrecisionPolicy(policy="mixed_bfloat16", float32_layers=("dense*",))
    with pytest.raises(WorkloadError) as refused_name:
        precision.keep_in_float32(small_model(), by_name)
    assert str(refused_name.value) == sentence
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


def test_without_their_generators_random_layers_do_not_augment(without, tmp_path):
    sentence = without("layer-draws")
    plugin = Augment(layers=({"layer": "RandomBrightness", "factor": 0.1},))
    with pytest.raises(PluginRefused) as refused:
        build_here(workload(), plugin, folder=tmp_path)
    assert sentence in str(refused.value)


def test_only_backup_and_restore_needs_the_epoch_to_be_unset(without, tmp_path):
    sentence = without("fit-resumed")
    unset_initial_epoch(small_model(), [keras.callbacks.History()])
    with pytest.raises(WorkloadError) as refused:
        unset_initial_epoch(small_model(), [keras.callbacks.BackupAndRestore(tmp_path / "b")])
    assert str(refused.value) == sentence


def test_class_weights_are_left_to_keras_own_loop(without, tmp_path):
    sentence = without("class-weights")
    built = build_here(workload(class_weight={0: 1.0}), folder=tmp_path)
    resident = attrs.evolve(built, training=attrs.evolve(built.training, loop="resident"))
    assert why_no_loop(resident) == sentence
    with pytest.raises(WorkloadError) as refused:
        sources.with_class_weight(built.run.datasets["train"], {0: 1.0})
    assert str(refused.value) == sentence


# Scripts


def test_the_fits_of_a_script_take_no_stack(without):
    sentence = without("script-fits")
    with pytest.raises(WorkloadError) as refused:
        FitWorkload.of(None, None, None, 1)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


# Strategies


def test_replicas_are_refused_and_one_device_is_not(without):
    sentence = without("replicas")
    workload = SimpleNamespace(own_strategy=None)
    several = SimpleNamespace(
        run=SimpleNamespace(strategy=tf.distribute.MirroredStrategy(["CPU:0"])), workload=workload
    )
    with pytest.raises(WorkloadError) as refused:
        distribution_of(several)  # type: ignore[arg-type]
    assert str(refused.value) == sentence
    one = SimpleNamespace(
        run=SimpleNamespace(strategy=tf.distribute.get_strategy()), workload=workload
    )
    assert distribution_of(one) is None  # type: ignore[arg-type]


def test_communication_is_not_read_back(without):
    sentence = without("strategies-read-back")
    extended = SimpleNamespace(worker_devices=("/device:CPU:0", "/device:CPU:1"))
    strategy = SimpleNamespace(num_replicas_in_sync=2, extended=extended)
    run = SimpleNamespace(strategy=strategy, replicas=2)
    effect = Mirrored(communication="reduce-to-one").report_effect(run, None)
    assert effect.applied
    assert sentence in effect.detail


# What users see


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
    task = PrepareTask(function="", look="", job=built.job)
    told = prepare(task, print, lambda job: given).warnings
    assert {*disabled_so_far()} <= {*told}
