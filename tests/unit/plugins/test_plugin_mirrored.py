"""Strategies of one process, the global batch over replicas, and the rules of the rate."""

import math

import attrs
import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import CPU, FakeProbe, machine_with
from tfopt_data.batch import with_last_batch_padded
from tfopt_distribute.mirrored import (
    Mirrored,
    check_communication,
    choose_devices,
    cross_device_ops,
)
from tfopt_distribute.one_device import OneDevice

from tfopt_core import DataPlan
from tfopt_core.data import Batch
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import PluginRefused, TrainingOptions
from tfopt_core.testing import make_run
from tfopt_core.toolkit import rate_factor, with_scaled_rate


def test_auto_takes_the_first_gpu_or_the_cpu():
    assert OneDevice().resolve(FakeProbe(machine=CPU)).device == "/cpu:0"
    assert OneDevice().resolve(FakeProbe(machine=machine_with((8, 0)))).device == "/gpu:0"


def test_one_device_leaves_a_generator_where_plain_keras_does():
    """Distributed data are read ahead, and a second fit would go on further behind."""
    strategy = OneDevice(device="/cpu:0").build_strategy(make_run())
    data = tf.data.Dataset.range(3)
    assert strategy.experimental_distribute_dataset(data) is data
    assert int(strategy.run(lambda x: x, (next(iter(data)),))) == 0


def test_devices_are_those_asked_for_else_logical_cpus_else_all_gpus():
    assert choose_devices(("/gpu:1", "/gpu:3"), None, 4) == ("/gpu:1", "/gpu:3")
    assert choose_devices((), 2, 4) == ("/cpu:0", "/cpu:1")
    assert choose_devices((), None, 2) == ("/gpu:0", "/gpu:1")
    with pytest.raises(PluginRefused, match="logical_cpu_devices = 2"):
        choose_devices((), None, 0)


def test_logical_devices_are_runtime_options():
    stack = Stack([StackedPlugin("mirrored", Mirrored(logical_cpu_devices=2))])
    options = stack.configure_runtime(CPU, None)
    assert options.logical_cpu_devices == 2


# The global batch over several replicas, and the learning-rate rules

PLAN = DataPlan.from_arrays(np.arange(32)).batch(8)


def with_larger_batch(plan, replicas):
    run = make_run(replicas=replicas)
    return Mirrored(batch_size="per-replica").build_dataset(run, "train", plan)


def test_the_batch_is_multiplied_and_everything_else_stays():
    larger = with_larger_batch(PLAN.prefetch(), 4)
    assert (larger.batch_size, larger.examples) == (32, 32)
    assert [stage.kind for stage in larger.stages] == ["source", "batch", "prefetch"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (DataPlan.from_arrays(np.arange(4)).apply(lambda d: d.batch(2)), "does not see it"),
        (PLAN.upto(1).with_stages((*PLAN.stages[:1], Batch(size=4, of=8))), "shared out"),
    ],
)
def test_batches_that_cannot_be_made_larger_are_refused(plan, said):
    with pytest.raises(PluginRefused, match=said):
        with_larger_batch(plan, 2)


def test_batches_made_larger_before_they_are_filled_up_are_filled_up_to_their_new_size():
    plan = DataPlan.from_arrays(np.arange(30.0), np.arange(30)).batch(8)
    filled = with_last_batch_padded(with_larger_batch(plan, 2))
    assert filled.done == "pads the last batch by 2 examples of weight 0 to 16, weighted"
    with pytest.raises(PluginRefused, match="up to 16 examples already; move that one behind"):
        with_larger_batch(filled.plan.prefetch(), 2)


def test_linear_multiplies_and_sqrt_takes_the_root():
    assert [rate_factor(rule, 4) for rule in ("keep", "linear", "sqrt")] == [1, 4, 2]
    run = make_run(batch_size=64, replicas=2)
    assert Mirrored()._rules(run) == ""
    scaled = Mirrored(batch_size="per-replica", learning_rate="linear")._rules(run)
    assert scaled == ", global batch 64, learning rate x 2 (linear)"
    assert Mirrored(batch_size="per-replica")._rules(run).endswith(", learning rate kept")
    with pytest.raises(ValueError, match='set batch_size = "per-replica"'):
        Mirrored(learning_rate="sqrt")


def rate(options):
    return float(options.optimizer.learning_rate)


@pytest.mark.parametrize("kind", ["name", "instance", "function", "loss scaling"])
def test_whatever_compile_takes_gets_the_scaled_rate(kind):
    adam = keras.optimizers.Adam(0.001, beta_1=0.7)
    given = {
        "name": "adam",
        "instance": adam,
        "function": lambda: adam,
        "loss scaling": keras.optimizers.LossScaleOptimizer(adam),
    }
    scaled = with_scaled_rate(TrainingOptions(optimizer=given[kind]), "linear", 3)
    assert rate(scaled) == pytest.approx(0.003)
    assert rate(TrainingOptions(optimizer=adam)) == pytest.approx(0.001)
    inner = getattr(scaled.optimizer, "inner_optimizer", scaled.optimizer)
    assert inner.beta_1 == (0.9 if kind == "name" else 0.7)


def test_a_rate_that_is_kept_leaves_the_options_alone():
    options = TrainingOptions(optimizer="adam")
    assert with_scaled_rate(options, "keep", 8) is options
    assert with_scaled_rate(options, "linear", 1) is options


@pytest.mark.thorough
def test_every_schedule_of_keras_is_scaled_at_every_step():
    schedules = keras.optimizers.schedules
    made = [
        schedules.CosineDecay(0.0, 10, alpha=0.1, warmup_target=0.1, warmup_steps=5),
        schedules.CosineDecayRestarts(0.1, 10),
        schedules.ExponentialDecay(0.1, 10, 0.9),
        schedules.InverseTimeDecay(0.1, 10, 0.5),
        schedules.PiecewiseConstantDecay([10, 20], [0.3, 0.2, 0.1]),
        schedules.PolynomialDecay(0.1, 10, end_learning_rate=0.01),
    ]
    assert {type(one).__name__ for one in made} == {
        name for name, value in vars(schedules).items() if isinstance(value, type)
    } - {"LearningRateSchedule"}
    for schedule in made:
        options = TrainingOptions(optimizer=keras.optimizers.SGD(schedule))
        scaled = with_scaled_rate(options, "sqrt", 2).optimizer._learning_rate
        for step in range(30):
            assert float(scaled(step)) == pytest.approx(math.sqrt(2) * float(schedule(step)))


def test_rates_that_are_not_known_are_refused_with_the_mend():
    class Own(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1

        def get_config(self):
            return {}

    own = TrainingOptions(optimizer=keras.optimizers.SGD(Own()))
    with pytest.raises(PluginRefused, match=r'a schedule of its own .*set learning_rate = "keep"'):
        with_scaled_rate(own, "linear", 2)
    planned = attrs.evolve(TrainingOptions(optimizer="adam"), schedule=Own())
    with pytest.raises(PluginRefused, match="move the plugin that plans it down"):
        with_scaled_rate(planned, "linear", 2)


@pytest.mark.parametrize(
    ("asked", "name"),
    [("nccl", "NcclAllReduce"), ("hierarchical", "HierarchicalCopyAllReduce"),
     ("reduce-to-one", "ReductionToOneDevice"), ("auto", "NoneType")],
)  # fmt: skip
def test_communication_is_what_tensorflow_calls_it(asked, name):
    assert type(cross_device_ops(asked, 1)).__name__ == name


def test_nccl_over_cpus_is_refused():
    check_communication("nccl", ("/gpu:0", "/gpu:1"))
    check_communication("hierarchical", ("/cpu:0", "/cpu:1"))
    with pytest.raises(PluginRefused, match="is for GPUs, and the devices are /cpu:0, /cpu:1"):
        check_communication("nccl", ("/cpu:0", "/cpu:1"))
