"""Run a diagnosis in its own process, and build the result from its messages."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version

import attrs

from tfopt_core.diagnosis.results import Diagnosed, PartsMeasured, PluginAsked
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import NoAnswer
from tfopt_core.training.messages import Message, Note
from tfopt_core.trials.outcomes import error_of
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.task import DiagnoseTask

OnPhase = Callable[[str], None]
SOFTWARE = ("tensorflow", "keras", "numpy")


def diagnose(
    request: Request,
    runner: Runner,
    installed: Sequence[PluginInfo],
    on_phase: OnPhase,
    *,
    quick: bool = False,
    stays: bool = False,
) -> Diagnosed:
    """Diagnose the request's training with its plugins, or without any its baseline.

    :param installed: all plugins, as read in a guarded process; the suggestions of those that
        could be imported are collected.
    :param on_phase: called with a description of each phase.
    :param quick: whether to take only seconds.
    :param stays: whether the process waits for further tasks, which the runner gives it.
    :raises RecipeError: for a workload that cannot be built.
    :raises InputError: if a plugin refuses the training.
    :raises PreparationFailed: for any other error that would stop a training.
    """
    measured: Diagnosed | None = None
    asking: str | None = None

    def hear(message: Message) -> None:
        nonlocal measured, asking
        match message:
            case Note():
                on_phase(message.text)
            case PartsMeasured():
                measured = message.diagnosed
                on_phase("asking the plugins")
            case PluginAsked():
                asking = message.plugin

    asked = tuple(info.name for info in installed if info.error is None)
    outcome = Processes(request, runner).look(
        DiagnoseTask, "diagnose", hear, asked_plugins=asked, quick=quick, stays=stays
    )
    if isinstance(outcome.message, Diagnosed):
        diagnosed = outcome.message
    elif measured is not None:  # the plugin that was asked last ended the process
        cause = f"the process that asked it {outcome.cause or 'failed'}"
        silent = () if asking is None else (NoAnswer(plugin=asking, distribution="", cause=cause),)
        warning = "the other plugins could not be asked any more"
        diagnosed = attrs.evolve(measured, silent=silent, warnings=(*measured.warnings, warning))
    else:
        raise error_of(outcome, "the diagnosis", request)
    broken = (
        NoAnswer(plugin=info.name, distribution=info.distribution, cause=info.error)
        for info in installed
        if info.error is not None
    )
    return attrs.evolve(
        diagnosed,
        silent=(*diagnosed.silent, *broken),
        environment={
            "python": platform.python_version(), **{name: version(name) for name in SOFTWARE},
            **request.recorded_environment,
        },
        seconds=outcome.seconds,
    )  # fmt: skip
