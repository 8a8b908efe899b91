"""Drives the hooks of a stack around a small training, in the order in which a run does."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np

from support.lazy_modules import keras, tf
from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.hooks.context import ProbedTraining
from tfopt_core.hooks.machine import Gpu
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import Control, Effect, Machine, TrainingOptions
from tfopt_core.testing import make_run
from tfopt_core.training.loops.report import LoopReport, note_loop
from tfopt_core.training.model.loss_scaling import compile_model, prepare_scaling
from tfopt_core.training.model.precision import apply_precision, set_policy

CPU = Machine(
    system="Linux", cpu_model="a CPU", cpu_count=2, cpu_count_total=8, memory_bytes=8 * 2**30
)
BFLOAT16_CPU = attrs.evolve(CPU, cpu_flags=frozenset({"avx512_bf16"}))


def machine_with(*capabilities: tuple[int, int]) -> Machine:
    """A machine with GPUs of these compute capabilities."""
    gpus = tuple(Gpu(f"GPU {i}", c, 16 * 2**30, 15 * 2**30) for i, c in enumerate(capabilities))
    return attrs.evolve(CPU, gpus=gpus)


@attrs.define
class FakeProbe:
    """What `resolve` asks, answered from a table."""

    machine: Machine = CPU
    epochs: int = 3
    steps_per_epoch: int | None = 100
    sizes: dict[str, tuple[float, int | None]] = attrs.field(factory=dict)
    plans: dict[str, DataPlan] = attrs.field(factory=dict)
    free: int = 2**30
    disk: int = 2**40
    seconds: Callable[[Any], float] = lambda plugin: math.inf
    timed: list[list[Any]] = attrs.field(factory=list)
    asked: list[int] = attrs.field(factory=list)
    probed: ProbedTraining | None = None
    compiled: Callable[[Any], Any] = lambda plugin: SimpleNamespace(jit_compile=True)
    notes: list[str] = attrs.field(factory=list)
    conflicts: dict[str, str] = attrs.field(factory=dict)

    def model(self, plugin: Any) -> Any:
        return self.compiled(plugin)

    def training(self, plugin: Any) -> ProbedTraining:
        assert self.probed is not None
        return self.probed

    def note(self, text: str) -> None:
        self.notes.append(text)

    def plan(self, split: str = "train") -> DataPlan:
        if split not in self.plans:
            raise ValueError(f"the workload has no {split} data")
        return self.plans[split]

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        if split not in self.sizes:
            raise ValueError(f"the workload has no {split} data")
        return self.sizes[split]

    def held_bytes(self, split: str = "train") -> tuple[float, int | None]:
        return self.element_bytes(split)

    def available_disk_bytes(self) -> int:
        return self.disk

    def available_memory_bytes(self) -> int:
        return self.free

    def peak_memory_bytes(self, plugin: Any) -> int | None:
        """A tenth of the memory beside the batch, and a hundredth for each example."""
        self.asked.append(plugin.batch_size)
        taken = self.free // 10 + plugin.batch_size * (self.free // 100)
        return None if taken > self.free else taken

    def step_seconds(self, plugins: Sequence[Any]) -> list[float]:
        self.timed.append(list(plugins))
        return [self.seconds(plugin) for plugin in plugins]


def small_plan() -> DataPlan:
    """64 examples with 4 features for a regression, in batches of 16."""
    x = np.random.default_rng(0).random((64, 4), dtype="float32")
    return DataPlan.from_arrays(x, x.sum(1, keepdims=True)).batch(16)


def small_model() -> Any:
    """A model for the examples of `small_plan`."""
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((4,)), dense(8, name="hidden"), dense(1, name="out")])


@attrs.frozen
class Driven:
    """What came out of a drive."""

    model: Any
    options: TrainingOptions
    effect: Effect
    stack: Stack


def drive(
    plugin: Any,
    folder: Path,
    *,
    machine: Machine = CPU,
    epochs: int = 2,
    steps_known: bool = True,
    beside: Any = None,
    plan: DataPlan | None = None,
    model: Callable[[], Any] = small_model,
    optimizer: Any = "sgd",
    callbacks: tuple[Any, ...] = (),
) -> Driven:
    """Train a small regression with one plugin; its effect is what the plugin itself reports.

    :param beside: a plugin that stands before it in the stack.
    :param model: makes the model.
    """
    keras.utils.set_random_seed(1)
    stacked = [StackedPlugin("beside", beside)] if beside is not None else []
    stack = Stack([*stacked, StackedPlugin("it", plugin)])
    run = make_run(
        folder=folder, kept=folder / "kept", machine=machine, epochs=epochs, batch_size=16,
        steps_per_epoch=None,
    )  # fmt: skip
    precision = stack.configure_precision(run)
    default = set_policy(precision)
    strategy = stack.build_strategy(run, tf.distribute.get_strategy())
    data = lower(stack.build_dataset(run, "train", small_plan() if plan is None else plan))
    run = attrs.evolve(
        run,
        strategy=strategy,
        replicas=strategy.num_replicas_in_sync,
        datasets={"train": data},
        element_spec=data.element_spec,
        steps_per_epoch=int(data.cardinality()) if steps_known else None,
    )
    with strategy.scope():
        built = stack.wrap_model(run, model())
        apply_precision(built, precision, default)
        given = TrainingOptions(optimizer=optimizer, loss="mse", callbacks=callbacks)
        options = stack.configure_training(run, built, given)
        compile_model(built, options, precision)
        prepare_scaling(built, precision, run.replicas)
    if options.loop == "keras":
        built.steps_per_execution = options.steps_per_execution
        note_loop(built, LoopReport(steps_per_call=options.steps_per_execution))

    def on_epoch_end(epoch: int, logs: dict[str, float]) -> None:
        control = Control()
        stack.on_epoch_end(run, built, epoch, logs, control)
        built.stop_training = control.stop_reason is not None

    monitor = keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end)
    built.fit(
        data, epochs=epochs, verbose=0, shuffle=False, callbacks=[*options.callbacks, monitor]
    )
    built.steps_per_execution = 1  # which a loop of many steps leaves as it is
    return Driven(built, options, stack.report_effects(run, built)["it"], stack)
