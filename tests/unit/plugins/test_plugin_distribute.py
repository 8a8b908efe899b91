"""Strategies: one device, mirrored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.plugin_drive import CPU, Driven, FakeProbe, machine_with
from support.real_process import python
from tfopt_distribute.mirrored import Mirrored, choose_devices
from tfopt_distribute.one_device import OneDevice

from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.hooks.values import Defaults
from tfopt_core.plugins import PluginRefused


def test_auto_takes_the_first_gpu_or_the_cpu() -> None:
    assert OneDevice().resolve(FakeProbe(machine=CPU)).device == "/cpu:0"
    assert OneDevice().resolve(FakeProbe(machine=machine_with((8, 0)))).device == "/gpu:0"


@pytest.mark.tensorflow
def test_one_device_reads_strategy_and_device_back(train: Callable[..., Driven]) -> None:
    effect = train(OneDevice(device="/cpu:0")).effect
    assert effect.applied
    assert "OneDeviceStrategy" in effect.detail
    assert "cpu:0" in effect.detail.lower()


@pytest.mark.tensorflow
def test_missing_device_is_refused(train: Callable[..., Driven]) -> None:
    with pytest.raises(PluginRefused, match=r'no device "/gpu:9"; TensorFlow sees cpu:0'):
        train(OneDevice(device="/gpu:9"))


def test_a_machine_without_a_gpu_is_refused_with_the_mend() -> None:
    with pytest.raises(PluginRefused, match="logical_cpu_devices = 2"):
        choose_devices((), None, 0)


@pytest.mark.tensorflow
def test_one_device_trains_as_a_baseline(train: Callable[..., Driven]) -> None:
    assert choose_devices((), None, 1) == ("/gpu:0",)
    assert choose_devices(("/gpu:3",), None, 4) == ("/gpu:3",)
    effect = train(Mirrored(devices=("/cpu:0",))).effect
    assert not effect.applied
    assert effect.detail == "the strategy has one replica, on CPU:0"


def test_devices_are_those_asked_for_else_logical_cpus_else_all_gpus() -> None:
    assert choose_devices(("/gpu:1", "/gpu:3"), None, 4) == ("/gpu:1", "/gpu:3")
    assert choose_devices((), 2, 4) == ("/cpu:0", "/cpu:1")
    assert choose_devices((), None, 2) == ("/gpu:0", "/gpu:1")


def test_logical_devices_are_runtime_options() -> None:
    stack = Stack([StackedPlugin("mirrored", Mirrored(logical_cpu_devices=2))], Defaults())
    options = stack.configure_runtime(CPU, None)  # type: ignore[arg-type]
    assert options.logical_cpu_devices == 2


TESTS = Path(__file__).parents[2]
TRAIN = """
import sys
from pathlib import Path
from time import perf_counter_ns
import attrs
import numpy as np
sys.path.insert(0, sys.argv[2])
from support.plugin_drive import CPU, SmallTraining
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core import Workload
from tfopt_core.plugins import RuntimeOptions
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import Recipe, WorkloadSpec
from tfopt_core.training.build import build
from tfopt_core.training.fit import train
from tfopt_core.training.job import Job
from tfopt_core.training.runtime import apply_in_process
from tfopt_distribute.mirrored import Mirrored
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.xla import Xla
from tfopt_training.lr_schedule import LrSchedule

@attrs.frozen(kw_only=True, eq=False)
class Unknown(Plugin):
    @hookimpl
    def build_dataset(self, plan):
        return plan.apply(lambda data: data.filter(lambda *_: True))

apply_in_process(RuntimeOptions(logical_cpu_devices=2))
x = np.random.default_rng(0).random((64, 4), dtype="float32")
workload = Workload(
    train=(x, x.sum(1, keepdims=True)), build_model=lambda: SmallTraining().wrap_model(None),
    optimizer="adam", loss="mse",
)
recipe = Recipe(name="mirrored", workload=WorkloadSpec(use="here", epochs=2, batch_size=16))
mirrored = Mirrored(logical_cpu_devices=2)
larger = Mirrored(
    logical_cpu_devices=2, communication="reduce-to-one", batch_size="per-replica",
    learning_rate="linear",
)
for name, plugins in {
    "mirrored": (mirrored,),
    "larger": (larger,),
    "xla": (mirrored, Xla()),
    "steps": (mirrored, StepsPerExecution(steps=2)),
    "unknown": (mirrored, Unknown(), StepsPerExecution(steps=2)),
    "chunked": (mirrored, Chunked(steps=2, xla=False)),
    "schedule": (mirrored, LrSchedule()),
}.items():
    stacked = tuple(StackedPlugin(f"plugin {i}", plugin) for i, plugin in enumerate(plugins))
    built = build(Job(recipe=recipe, plugins=stacked, variant="full", seed=1, machine=CPU,
                      folder=Path(sys.argv[1])), workload)
    outcome = train(built, perf_counter_ns(), lambda message: None)
    effects = built.stack.report_effects(built.run, built.model)
    effect = effects[stacked[-1].name]
    rate = float(built.model.optimizer.learning_rate.numpy())  # float() fails over replicas
    print(f"{name} {outcome.steps} steps, rate {rate:.3g}: {effect.applied}, {effect.detail}")
    if name == "schedule":
        built.stack.unwrap(built.model).save(Path(sys.argv[1]) / "model.keras")
"""


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_mirrored_trains_on_two_logical_cpus_and_others_stand_beside_it(tmp_path: Path) -> None:
    answer = python("-c", TRAIN, tmp_path, TESTS, cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        "mirrored 8 steps, rate 0.001: True, 2 replicas, on CPU:0, CPU:1",
        "larger 4 steps, rate 0.002: True, 2 replicas, on CPU:0, CPU:1, ReductionToOneDevice, "
        "global batch 32, learning rate x 2 (linear)",
        "xla 8 steps, rate 0.001: False, Keras cannot compile a step by XLA over 2 replicas",
        "steps 8 steps, rate 0.001: True, 2 steps a call: 8 steps in 4 calls",
        "unknown 8 steps, rate 0.001: False, the number of steps in an epoch is unknown, for which "
        "the loop over replicas makes single steps",
        "chunked 8 steps, rate 0.001: False, over 2 replicas another loop trains; "
        "steps-per-execution sets its steps a call",
        "schedule 8 steps, rate 0: True, CosineDecay, learning rate 0 after 8 steps",
    ]
    assert (tmp_path / "model.keras").exists()
