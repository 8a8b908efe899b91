"""The `Probe` of a plugin's `resolve`, which builds and times a little of the training."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan
from tfopt_core.data.anatomy import element_bytes, overhead_bytes, random_ops, still
from tfopt_core.data.lower import lower_stages
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.context import Probe, ProbedTraining
from tfopt_core.hooks.machine import Machine, available_memory_bytes
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.training.build import Built, baseline_plans, build
from tfopt_core.training.input.sources import as_plan
from tfopt_core.training.job import Job
from tfopt_core.training.messages import RunReport
from tfopt_core.training.workload import Workload
from tfopt_core.trials.step_timing import time_steps
from tfopt_core.workers.spawn import SpawnRunner
from tfopt_core.workers.task import Failure, RunTask

SAMPLE_EXAMPLES = 64


@attrs.define(eq=False)
class ProcessProbe(Probe):
    """The probe of one plugin; `Probe` says what each of its answers is.

    :param job: the full stack, with the settings that are resolved so far.
    :param index: the index of the plugin in the stack.
    :param notes: what the plugin has noted.
    :param not_timed: why plugins of `step_seconds` could not be timed, by their settings.
    """

    job: Job
    workload: Workload
    index: int
    not_timed: dict[str, str] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)

    @property
    def machine(self) -> Machine:
        return self.job.machine

    @property
    def epochs(self) -> int:
        return self.job.epochs(self.workload)

    @property
    def conflicts(self) -> dict[str, str]:
        others = (*self.job.plugins[: self.index], *self.job.plugins[self.index + 1 :])
        return {name: stacked.name for stacked in others for name in stacked.plugin.conflicts}

    @property
    def steps_per_epoch(self) -> int | None:
        plan = as_plan(self.workload.train, "train")
        if plan.batched:
            return plan.cardinality
        size = self.job.recipe.workload.batch_size or self.workload.batch_size
        return None if plan.examples is None else math.ceil(plan.examples / size)

    def plan(self, split: str = "train") -> DataPlan:
        own = self._own_plan(split)
        if isinstance(self.workload, FitWorkload):
            return own
        return baseline_plans(self.job, self.workload)[split]

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        plan = self._own_plan(split)
        if plan.examples is None and self.index:
            # the plugins before this one may have counted them
            plan = self._build(self.job.plugins[: self.index]).plans[split]
            place = plan.find(Batch)
            plan = plan if place is None else plan.upto(place)
        sizes = list(_sizes(plan))
        return (math.fsum(sizes) / len(sizes) if sizes else 0.0), plan.examples

    def held_bytes(self, split: str = "train") -> tuple[float, int | None]:
        size, count = self.element_bytes(split)
        return size + overhead_bytes(self._own_plan(split)), count

    def available_disk_bytes(self) -> int:
        return shutil.disk_usage(self.job.folder).free

    def available_memory_bytes(self) -> int:
        return available_memory_bytes()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def peak_memory_bytes(self, plugin: Any) -> int | None:
        folder = Path(self.job.folder) / "memory"
        shutil.rmtree(folder, ignore_errors=True)
        job = attrs.evolve(self.job, plugins=self._around(plugin), folder=folder)
        task = RunTask(job=job, expendable=True)
        # this process has the environment of the stack already
        outcome = SpawnRunner()(task, os.environ, lambda message: None)
        shutil.rmtree(folder, ignore_errors=True)
        report = outcome.message
        # nobody else kills it: where no control group counts, the signal alone says so
        killed = (outcome.cause or "").startswith("killed by SIGKILL")
        if outcome.out_of_memory or killed:
            return None
        if not isinstance(report, RunReport):
            cause = report.message if isinstance(report, Failure) else outcome.cause
            raise PluginRefused(f"a trial run for its memory failed: {cause}")
        return report.peak_rss_bytes

    def step_seconds(self, plugins: Sequence[Any]) -> list[float]:
        timed = time_steps([partial(self._built, plugin) for plugin in plugins], choosing=True)
        name = self.job.plugins[self.index].name
        for plugin, time in zip(plugins, timed, strict=True):
            if time.why_not:
                settings = StackedPlugin(name, plugin).settings
                words = ", ".join(f"{key} = {value}" for key, value in settings.items())
                self.not_timed[f"{name} with {words}"] = time.why_not
        return [time.step_seconds for time in timed]

    def model(self, plugin: Any) -> Any:
        return self._built(plugin).model

    def training(self, plugin: Any) -> ProbedTraining:
        built = self._built(plugin)
        wrap, step = built.training.wrap_train_step, built.model.train_step
        batch = next(iter(built.run.datasets["train"]))
        return ProbedTraining(built.model, step if wrap is None else wrap(step), batch)

    def _own_plan(self, split: str) -> DataPlan:
        """Return the data of a split as the workload gives them."""
        data = self.workload.train if split == "train" else self.workload.validation
        if data is None:
            raise ValueError(f"the workload has no {split} data")
        return as_plan(data, split)

    def _around(self, plugin: Any) -> tuple[StackedPlugin, ...]:
        """Return the stack with this plugin, without later ones that are not resolved yet."""
        stack = list(self.job.plugins)
        stack[self.index] = StackedPlugin(stack[self.index].name, plugin)
        return tuple(
            stacked
            for position, stacked in enumerate(stack)
            if position <= self.index or "auto" not in stacked.settings.values()
        )

    def _built(self, plugin: Any) -> Built:
        return self._build(self._around(plugin))

    def _build(self, plugins: tuple[StackedPlugin, ...]) -> Built:
        folder = Path(self.job.folder) / "probe"
        folder.mkdir(parents=True, exist_ok=True)
        return build(attrs.evolve(self.job, plugins=plugins, folder=folder), self.workload)


def _sizes(plan: DataPlan) -> Iterator[int]:
    """Yield the bytes of some examples after the longest deterministic prefix of the plan."""

    # the order of examples does not change their size, and a shuffle may have to count them
    bare = still(plan)
    end = 1
    for index, stage in enumerate(bare.stages[1:], start=1):
        if isinstance(stage, Batch) or random_ops(bare, index):
            break
        end = index + 1
    for element in lower_stages(bare.stages[:end]).take(SAMPLE_EXAMPLES):
        yield element_bytes(element)
