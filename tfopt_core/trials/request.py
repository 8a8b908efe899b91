"""The request of a measurement, and the dry build with which every measurement begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import RecipeError, WorkloadError, did_you_mean
from tfopt_core.hooks import Machine
from tfopt_core.hooks.defaults import Defaults
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.recipe import Reading, Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.training.runtime import process_environment
from tfopt_core.trials.processes import Processes
from tfopt_core.workers.spawn import Runner


@attrs.frozen(kw_only=True)
class Request:
    """What is measured, and the world in which it is.

    :param folder: where the runs' private folders go.
    :param environment: the environment that the runs' processes start from.
    :param reading: the recipe as it was read, for the places of what turns out to be wrong.
    :param save_to: where the best optimized model goes, None to keep none.
    :param seed: draws order and seeds; None takes a random one. Kept with the results.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    reading: Reading = attrs.field(factory=lambda: Reading(()), repr=False)
    save_to: Path | None = None
    seed: int | None = None
    debug: bool = False


def prepare(
    request: Request,
    runner: Runner,
    *,
    estimate: bool = False,
    detail: bool = False,
    quick: bool = False,
) -> tuple[Prepared, Request]:
    """Resolve the stack and build it dry: what `tfopt plan` shows, and how a measurement begins.

    :param estimate: time some steps without the stack too, for what a training will take.
    :param detail: look at each stage of the data, and at the memory of a run, too.
    :param quick: time some steps with the stack too.
    :returns: what was found, and the request with resolved plugins on the machine as TensorFlow
        sees it.
    :raises RecipeError: for a workload that cannot be built, and for a metric of quality or a
        target that the training does not report.
    :raises InputError: for what a plugin refuses.
    :raises PreparationFailed: for what would fail in every run.
    """
    reading = request.reading
    try:
        prepared = processes_of(request, runner).prepare(
            request.plugins, seed=request.seed or 1, estimate=estimate, detail=detail, quick=quick
        )
    except WorkloadError as error:
        key = f"workload.{request.recipe.workload.key}"
        raise RecipeError([reading.problem(key, str(error))]) from error
    _check_metrics(request, prepared)
    return prepared, with_prepared(request, prepared)


def prepare_in_detail(request: Request, runner: Runner) -> Prepared:
    """Return the dry build, with a look at each stage of the data and at the memory of a run.

    Where settings of "auto" had to be found out, that took memory too: what a run takes is then
    looked at in a new process, which has them.

    :raises: what `prepare` raises.
    """
    if all("auto" not in stacked.settings.values() for stacked in request.plugins):
        return prepare(request, runner, detail=True)[0]
    prepared, resolved = prepare(request, runner)
    detailed, _ = prepare(resolved, runner, detail=True)
    return attrs.evolve(
        prepared,
        stages=detailed.stages,
        memory=detailed.memory,
        seconds=prepared.seconds + detailed.seconds,
    )


def with_prepared(request: Request, prepared: Prepared) -> Request:
    """Return the request with the resolved plugins, on the machine as TensorFlow sees it."""
    resolved = with_settings(request.plugins, [plan.settings for plan in prepared.plugins])
    machine = attrs.evolve(request.machine, gpus=prepared.gpus)
    return attrs.evolve(request, plugins=resolved, machine=machine)


def with_settings(
    plugins: Sequence[StackedPlugin], settings: Sequence[Mapping[str, Any]]
) -> tuple[StackedPlugin, ...]:
    """Return the plugins with these settings, as a process has sent them."""
    return tuple(
        StackedPlugin(stacked.name, type(stacked.plugin)(**_as_fields(told)))
        for stacked, told in zip(plugins, settings, strict=True)
    )


def _check_metrics(request: Request, prepared: Prepared) -> None:
    measure, reading = request.recipe.measure, request.reading
    known = ", ".join(prepared.metrics)
    problems = []
    for path, metric in (
        ("measure.quality.metric", prepared.quality_metric),
        ("measure.target.metric", measure.target.metric if measure.target else None),
    ):
        if metric is not None and metric not in prepared.metrics:
            hint = did_you_mean(metric, prepared.metrics)
            mend = f"{hint} it reports: {known}" if hint else f"it reports: {known}"
            message = f'the training reports no "{metric}"'
            problems.append(reading.problem(path, message, mend))
    if not problems and prepared.quality_direction is None:
        problems.append(
            reading.problem(
                "measure.quality.direction",
                f'whether "{prepared.quality_metric}" is better high or low is not known',
                'add direction = "max" or "min"',
            )
        )
    if problems:
        raise RecipeError(problems)


def processes_of(request: Request, runner: Runner) -> Processes:
    """Return the processes of a measurement, each in a private folder below the request's."""
    return Processes(
        recipe=request.recipe,
        machine=request.machine,
        folder=request.folder,
        environment=request.environment,
        runner=runner,
        debug=request.debug,
        alike=_starts_alike(request),
    )


def _starts_alike(request: Request) -> bool:
    """Return whether no plugin of the stack changes the environment that a process starts with."""
    environments = []
    for plugins in ((), request.plugins):
        stack = Stack(plugins, Defaults())
        runtime = stack.configure_runtime(request.machine, request.recipe)
        environments.append(process_environment(request.environment, runtime, debug=False))
    return environments[0] == environments[1]


def _as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
