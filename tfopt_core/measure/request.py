"""What is to be measured; and the dry build that every measurement begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.hooks import Machine
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measure.isolate import Runner
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.processes import Processes
from tfopt_core.recipe import Recipe


@attrs.frozen(kw_only=True)
class Request:
    """What is measured, and the world in which it is.

    :param folder: where the runs' private folders go.
    :param environment: the environment that the runs' processes start from.
    :param save_to: where the best optimized model goes, None to keep none.
    :param seed: draws order and seeds; None takes a random one. Kept with the results.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    save_to: Path | None = None
    seed: int | None = None
    debug: bool = False


def prepare(request: Request, runner: Runner) -> tuple[Prepared, tuple[StackedPlugin, ...]]:
    """Resolve the stack and build it dry: what `tfopt plan` shows, and how a measurement begins.

    :raises InputError: also for a metric of quality or a target that is not reported.
    :raises PreparationFailed: for what would fail in every run.
    """
    processes = processes_of(request, runner)
    prepared = processes.prepare(request.plugins, seed=request.seed or 1)
    resolved = tuple(
        StackedPlugin(s.name, type(s.plugin)(**_as_fields(plan.settings)))
        for s, plan in zip(request.plugins, prepared.plugins, strict=True)
    )
    measure = request.recipe.measure
    for path, metric in (
        ("measure.quality.metric", measure.quality and measure.quality.metric),
        ("measure.target.metric", measure.target and measure.target.metric),
    ):
        if metric and metric not in prepared.metrics:
            known = ", ".join(prepared.metrics)
            hint = did_you_mean(metric, prepared.metrics)
            raise InputError(
                f'{path}: the training reports no "{metric}"; {hint + " " if hint else ""}'
                f"it reports: {known}"
            )
    return prepared, resolved


def processes_of(request: Request, runner: Runner) -> Processes:
    """The processes of a measurement, each in a private folder below the request's."""
    return Processes(
        recipe=request.recipe,
        machine=request.machine,
        folder=request.folder,
        environment=request.environment,
        runner=runner,
        debug=request.debug,
    )


def _as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
