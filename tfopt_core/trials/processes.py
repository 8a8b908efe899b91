"""Start a worker process for each task of a measurement, and turn its outcome into a result."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import RecipeError, did_you_mean, first_line
from tfopt_core.hooks.own_loop import configured_runtime
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Change, RuntimeOptions
from tfopt_core.scripts.folders.copied_folder import CopiedFolder
from tfopt_core.scripts.folders.private_folder import PRIVATE, OverlayMounts, why_no_overlay
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult
from tfopt_core.training.job import Job
from tfopt_core.training.messages import Tell
from tfopt_core.training.replay.data import Replayed, ReplayPart
from tfopt_core.training.runtime import process_environment
from tfopt_core.trials.outcomes import (
    MODEL_FILE,
    error_of,
    left_behind,
    remove_private_files,
    result_of,
    run_folder,
)
from tfopt_core.trials.request import Prepared, Request, ScheduledRun, Variant, with_prepared
from tfopt_core.trials.workload_options import recipe_of_variant
from tfopt_core.workers.fork import ForkRunner, may_fork
from tfopt_core.workers.spawn import ProcessOutcome, Runner
from tfopt_core.workers.task import Failure, LookTask, PrepareTask, ReplayTask, RunTask, Task

# Else the first process takes nearly all memory of each GPU, and the next one finds none.
GPU_MEMORY_AS_NEEDED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
NO_ESTIMATE = (
    "the time of a training is not estimated: memory ran out while the dry build timed some steps"
)


class ReplayFailed(Exception):
    """A replay that could not be made; the message says why."""


@attrs.frozen
class Processes:
    """Starts the processes of one measurement, each in a private folder below the request's.

    :param alike: whether all variants start from the same environment.
    """

    request: Request
    runner: Runner
    alike: bool = attrs.field(init=False)

    @alike.default
    def _starts_alike(self) -> bool:
        stacks = [(), self.request.plugins, *([self.request.added] if self.request.added else [])]
        baseline, *others = (
            self._environment(self._runtime(plugins)[0], debug=False) for plugins in stacks
        )
        return all(environment == baseline for environment in others)

    def look(
        self, kind: type[LookTask], folder: str, tell: Tell = lambda message: None, **fields: Any
    ) -> ProcessOutcome:
        """Examine the training with the plugins of the request.

        :param kind: the kind of look, with the fields of its own.
        """
        task = kind(job=self._job_of_stack(folder), **fields, **self._common)
        return self._carry_out(task, tell)

    def run(
        self, scheduled: ScheduledRun, run_id: str, tell: Tell, *, save: bool = False,
        **options: Any,
    ) -> RunResult:  # fmt: skip
        """Train one run of the schedule and return its result; a failure is a result too.

        :param save: keep the trained model in the run's folder.
        :param options: further fields of the `RunTask`.
        """
        folder = run_folder(
            self.request.folder, scheduled.round, scheduled.position, scheduled.variant.name
        )
        # a killed run may have left files that harm this one, such as the lock of a disk cache
        shutil.rmtree(folder, ignore_errors=True)
        task = RunTask(
            job=self._job(scheduled.variant, scheduled.seed, folder),
            save_to=folder / MODEL_FILE if save else None, **options, **self._common,
        )  # fmt: skip
        outcome = self._carry_out(task, tell)
        return result_of(outcome, scheduled, run_id, self.request.recipe.measure.target)

    def start_as_forks(self) -> bool:
        """Return whether the runs are forks of a process that has imported TensorFlow."""
        return isinstance(self.runner, ForkRunner) and may_fork(*self._for_a_run())

    def warm_up(self) -> None:
        """Start what the runs share, so that it is no part of the first of them."""
        if isinstance(self.runner, ForkRunner):
            self.runner.warm_up(*self._for_a_run())

    def _for_a_run(self) -> tuple[RunTask, dict[str, str]]:
        task = RunTask(job=self._job_of_stack("run"), **self._common)
        return task, self._environment(task.job.runtime, debug=task.debug)

    def replay(
        self, variant: Variant, seed: int, shared: Path, part: ReplayPart = "training",
        **options: Any,
    ) -> Replayed:  # fmt: skip
        """Replay a short training, and return it.

        :param shared: the folder that the processes of all variants share.
        :param options: further fields of the `ReplayTask`.
        :raises ReplayFailed: if there is none.
        """
        folder = self.request.folder / "replay" / variant.name
        shutil.rmtree(folder, ignore_errors=True)
        task = ReplayTask(
            job=self._job(variant, seed, folder), part=part, replay_folder=shared, **options,
            **self._common,
        )  # fmt: skip
        outcome = self._carry_out(task)
        message = outcome.message
        if isinstance(message, Replayed):
            return message
        cause = message.message if isinstance(message, Failure) else outcome.cause
        side = "with" if variant.plugins else "without"
        raise ReplayFailed(f"the replay {side} the stack failed: {first_line(cause or '')}")

    @property
    def _common(self) -> dict[str, Any]:
        """The arguments of all tasks."""
        request, script = self.request, self.request.recipe.workload.is_script
        # a strategy opens the devices when it is built, in a fork before the script's first line
        opens = any(hasattr(p.plugin, OWNER_HOOK) for p in (*request.plugins, *request.added))
        forks = self.alike and (not script or (request.forks and not opens))
        return {"debug": request.debug, "forks": forks}

    def _job_of_stack(self, folder: str) -> Job:
        request = self.request
        variant = Variant(FULL if request.plugins else BASELINE, request.plugins)
        return self._job(variant, request.seed or 1, request.folder / folder)

    def _job(self, variant: Variant, seed: int, folder: Path) -> Job:
        runtime, changes = self._runtime(variant.plugins)
        return Job(
            recipe=recipe_of_variant(self.request.recipe, self.request.plugins, variant.plugins),
            plugins=variant.plugins, variant=variant.name, seed=seed,
            machine=self.request.machine, folder=folder, kept=self.request.kept, runtime=runtime,
            runtime_changes=changes,
        )  # fmt: skip

    def _runtime(
        self, plugins: tuple[StackedPlugin, ...]
    ) -> tuple[RuntimeOptions, tuple[Change, ...]]:
        return configured_runtime(plugins, self.request.machine, self.request.recipe)

    def _environment(
        self, runtime: RuntimeOptions, *, debug: bool, own: bool = False
    ) -> dict[str, str]:
        """Return the environment of a process.

        :param own: whether it is a training of the user's own, beside which none of tfopt's runs.
        """
        shared = bool(self.request.machine.gpus) and not own
        base = {**(GPU_MEMORY_AS_NEEDED if shared else {}), **self.request.environment}
        return process_environment(base, runtime, debug=debug)

    def _carry_out(self, task: Task, tell: Tell = lambda message: None) -> ProcessOutcome:
        folder = task.job.folder
        stays = isinstance(task, LookTask) and task.stays
        if task.is_private and not (isinstance(task, LookTask) and task.follows):
            task = self._with_private_folder(task)
        environment = self._environment(task.job.runtime, debug=task.debug, own=not task.measured)
        outcome = self.runner(task, environment, tell)
        if task.private is not None:
            outcome = attrs.evolve(outcome, written=task.private.written())
        if not stays:  # it may still work in its private folder
            remove_private_files(folder)
        return outcome

    def _with_private_folder(self, task: Task) -> Task:
        """Return the task with the script's private folder.

        :raises InputError: if there is neither an overlay nor a copy.
        """
        work, results = task.job.folder / PRIVATE, self.request.folder
        own = self.request.recipe.working_directory.resolve()
        shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
        if (why := why_no_overlay(own, results)) is None:
            return attrs.evolve(task, private=OverlayMounts.of(own, work, results))
        return attrs.evolve(task, private=CopiedFolder.make(own, work, why))


def prepare(
    request: Request,
    runner: Runner,
    *,
    estimate: bool = False,
    quick: bool = False,
    follows: bool = False,
) -> tuple[Prepared, Request]:
    """Resolve the stack and build it dry: what `tfopt plan` shows, and how a measurement begins.

    :param estimate: time some steps without the stack too, for what a training will take.
    :param quick: time some steps with the stack too.
    :param follows: whether the runner gives the task to the process of an earlier one.
    :returns: what was found, and the request with resolved plugins on the machine as TensorFlow
        sees it.
    :raises RecipeError: for a workload that cannot be built, and for a metric of quality or a
        target that the training does not report.
    :raises InputError: for what a plugin refuses.
    :raises PreparationFailed: for what would fail in every run.
    :raises CannotShare: if that process cannot take it.
    """
    look = partial(
        Processes(request, runner).look, PrepareTask, "prepare", quick=quick, stays=follows,
        follows=follows,
    )  # fmt: skip
    outcome, notes = look(estimate=estimate), list[str]()
    if outcome.out_of_memory and estimate:
        # it also trains steps without the stack, which need not fit into memory
        outcome, notes = look(estimate=False), [NO_ESTIMATE]
    prepared = outcome.message
    if not isinstance(prepared, Prepared):
        raise error_of(outcome, "the dry build", request)
    baseline = recipe_of_variant(request.recipe, request.plugins, ())
    if baseline is not request.recipe:
        # the dry build has built the stack's options alone, and timed steps with them
        size = baseline.workload.batch_size
        prepared = attrs.evolve(prepared, baseline_batch_size=size, training_seconds=None)
    warnings = (*prepared.warnings, *notes, *left_behind(outcome, "the dry build"))
    prepared = attrs.evolve(prepared, seconds=outcome.seconds, warnings=warnings)
    check_metrics(request, prepared)
    return prepared, with_prepared(request, prepared)


def check_metrics(request: Request, prepared: Prepared) -> None:
    """Check that the training reports the metrics that the recipe names.

    :raises RecipeError: if it does not, or nobody knows which way a metric is better.
    """
    measure, reading = request.recipe.measure, request.reading
    if prepared.own_loop:
        return  # it reports none, and a recipe that names one is refused
    known = ", ".join(prepared.metrics)
    problems = []
    for path, metric in (
        # of a script whose metrics nobody knows to be better high or low, none is judged by
        ("measure.quality.metric", prepared.quality_metric or None),
        ("measure.target.metric", measure.target.metric if measure.target else None),
    ):
        if metric is not None and metric not in prepared.metrics:
            hint = did_you_mean(metric, prepared.metrics)
            mend = f"{hint} it reports: {known}" if hint else f"it reports: {known}"
            message = f'the training reports no "{metric}"'
            problems.append(reading.problem(path, message, mend))
    if not problems and prepared.quality_metric and prepared.quality_direction is None:
        problems.append(
            reading.problem(
                "measure.quality.direction",
                f'whether "{prepared.quality_metric}" is better high or low is not known',
                'add direction = "max" or "min"',
            )
        )
    if problems:
        raise RecipeError(problems)
