"""Request a measurement, and make the dry build with which it begins."""

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
    """What to measure, and where.

    :param folder: the folder of the runs' private folders.
    :param environment: the environment that the runs' processes start from.
    :param reading: the recipe as it was read, for the places of problems.
    :param save_to: where to save the best optimized model, None to save none.
    :param seed: the seed of order and runs, stored with the results; None draws one.
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
    """Make the dry build and return it with the resolved request.

    :param estimate: also time some steps without the stack, to estimate a training.
    :param detail: also describe each stage of the data, and the memory of a run.
    :param quick: also time some steps with the stack.
    :returns: the dry build, and the request with resolved plugins on the machine as TensorFlow
        sees it.
    :raises RecipeError: for a workload that cannot be built, and for a metric of quality or a
        target that the training does not report.
    :raises InputError: if a plugin refuses the training.
    :raises PreparationFailed: for an error that would stop every run.
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
    """Return the dry build with each stage of the data and the memory of a run.

    Resolving "auto" takes memory too, so the memory of a run is then read in a second process with
    the resolved settings.

    :raises: the errors of `prepare`.
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
    """Return the plugins with these settings, which a process has sent."""
    return tuple(
        StackedPlugin(stacked.name, type(stacked.plugin)(**_as_fields(values)))
        for stacked, values in zip(plugins, settings, strict=True)
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
    """Return whether no plugin changes the environment that a process starts with."""
    environments = []
    for plugins in ((), request.plugins):
        stack = Stack(plugins, Defaults())
        runtime = stack.configure_runtime(request.machine, request.recipe)
        environments.append(process_environment(request.environment, runtime, debug=False))
    return environments[0] == environments[1]


def _as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
