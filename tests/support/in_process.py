"""Helpers that train in the tests' own process: no start-up, the same code as a run's."""

import contextlib
import importlib
import io
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter_ns
from typing import Any

import attrs
import pytest

from support.lazy_modules import keras
from support.real_process import UNWANTED, Done, in_full
from tfopt_core import Workload
from tfopt_core.commands.main import run
from tfopt_core.data.stages import COPIED
from tfopt_core.errors import TfoptError
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.build import Built, build
from tfopt_core.training.fit import train
from tfopt_core.training.job import Job
from tfopt_core.training.messages import FitOutcome, Tell
from tfopt_core.workers.spawn import ProcessOutcome
from tfopt_core.workers.task import Task, failure_of


@attrs.frozen
class InProcessRunner:
    """Stands in for `SpawnRunner`: carries each task out here. For what needs no isolation."""

    capture: bool = True
    limits: Any = None

    def with_spawn(self, spawn: Any) -> Any:
        """Stand in for a `ForkRunner` too."""
        return self

    def output_path(self, task: Task) -> None:
        """Nothing that it prints is in a file."""

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        task.job.folder.mkdir(parents=True, exist_ok=True)
        try:
            message = resolve_name(task.function)(task, tell)
        except TfoptError as error:
            message = failure_of(error)
        return ended_with(message, seconds=0.0)


def ended_with(message: Any = None, cause: Any = None, seconds: float = 1.0) -> ProcessOutcome:
    """How a process ended that there never was."""
    return ProcessOutcome(
        message=message, cause=cause, seconds=seconds, output_path=None, output_tail="the tail"
    )


def job_here(
    *plugins: Any, folder: Path, seed: int = 7, epochs: int | None = 2, batch_size: int | None = 4
) -> Job:
    """The job of a run with plugin instances."""
    spec = WorkloadSpec(use="here", epochs=epochs, batch_size=batch_size)
    return Job(
        recipe=Recipe(name="here", workload=spec),
        plugins=tuple(StackedPlugin(type(plugin).__name__, plugin) for plugin in plugins),
        variant="full",
        seed=seed,
        machine=make_machine(),
        folder=folder,
    )


def script_job(*plugins: Any, folder: Path, seed: int, **spec: Any) -> Job:
    """The job of a run of a script with plugin instances, named as their classes in lower case."""
    return Job(
        recipe=Recipe(name="here", workload=WorkloadSpec(script="train.py", **spec)),
        plugins=tuple(StackedPlugin(type(one).__name__.lower(), one) for one in plugins),
        variant="full", seed=seed, machine=make_machine(), folder=folder,
    )  # fmt: skip


def build_here(workload: Workload, *plugins: Any, **options: Any) -> Built:
    """The workload with plugin instances, as a run builds it."""
    job = job_here(*plugins, **options)
    keras.utils.set_random_seed(job.seed)
    return build(job, workload)


def train_here(workload: Workload, *plugins: Any, **options: Any) -> tuple[Built, FitOutcome]:
    """The same, trained."""
    built = build_here(workload, *plugins, **options)
    return built, train(built, perf_counter_ns(), lambda message: None)


def carry_out_here(monkeypatch: Any) -> None:
    """Have the commands carry out their tasks in this process, for what needs no isolation."""
    monkeypatch.setattr("tfopt_core.workers.spawn.SpawnRunner", InProcessRunner)
    # what is forked otherwise is given to the runner within
    measurement = ("tfopt_core.measurement.certifying", "tfopt_core.measurement.groups")
    for name in ("tfopt_core.trials.processes", *measurement):
        importlib.import_module(name)  # which must know the real class
    # nobody would resume this process
    monkeypatch.setattr("tfopt_core.measurement.groups.can_take_turns", lambda *asked: False)
    monkeypatch.setattr(
        "tfopt_core.workers.fork.ForkRunner", lambda spawn: contextlib.nullcontext(spawn)
    )


def tfopt_here(*arguments: str | Path, cwd: Path) -> Done:
    """Run a `tfopt` that only reads and prints, with its output piped."""
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        for name in UNWANTED:
            patch.delenv(name, raising=False)
        patch.chdir(cwd)
        code = run(in_full(arguments))
    return Done(code, out.getvalue(), err.getvalue())


def refuse_stages_behind_a_copy(monkeypatch: Any) -> None:
    """Have data sets of the CPU refuse what those on a GPU do: a stage behind their copy."""
    import tensorflow as tf

    for name in ("map", "repeat", "take", "apply"):
        method = getattr(tf.data.Dataset, name)

        def checked(dataset: Any, *given: Any, method: Any = method, **options: Any) -> Any:
            assert COPIED not in vars(dataset)
            return method(dataset, *given, **options)

        monkeypatch.setattr(tf.data.Dataset, name, checked)
