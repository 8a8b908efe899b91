"""Run a diagnosis in its own process, and build the result from its messages."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.errors import InputError, PreparationFailed, RecipeError, WorkloadError
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import NoAnswer
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.training.runtime import recorded_environment
from tfopt_core.trials.processes import last_words
from tfopt_core.trials.request import Request, processes_of
from tfopt_core.workers.spawn import ProcessOutcome, Runner

OnPhase = Callable[[str], None]
LOOK = "tfopt_core.diagnosis.work:diagnosed"
SOFTWARE = ("tensorflow", "keras", "numpy")


@attrs.define
class _Messages:
    """Collects the messages of the process."""

    on_phase: OnPhase
    measured: dict[str, Any] | None = None
    asking: str | None = None

    def __call__(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "phase":
                self.on_phase(str(message["phase"]))
            case "measured":
                self.measured = message["diagnosed"]
                self.on_phase("asking the plugins")
            case "asking":
                self.asking = str(message["plugin"])


def diagnose(
    request: Request,
    runner: Runner,
    installed: Sequence[PluginInfo],
    on_phase: OnPhase,
    *,
    quick: bool = False,
) -> Diagnosed:
    """Diagnose the request's training with its plugins, or without any its baseline.

    :param installed: all plugins, as read in a guarded process; the suggestions of those that
        could be imported are collected.
    :param on_phase: called with a description of each phase.
    :param quick: whether to take only seconds, with an in-run contrast of loops.
    :raises RecipeError: for a workload that cannot be built.
    :raises InputError: if a plugin refuses the training.
    :raises PreparationFailed: for any other error that would stop a training.
    """
    messages = _Messages(on_phase)
    importable = tuple(info.name for info in installed if info.error is None)
    outcome = processes_of(request, runner).diagnose(
        request.plugins, request.seed or 1, importable, messages, LOOK, quick=quick
    )
    message = outcome.message
    if message is not None and message["type"] == "diagnosed":
        diagnosed = _structured(message["diagnosed"])
    elif messages.measured is not None:
        diagnosed = _without_answers(_structured(messages.measured), messages.asking, outcome)
    else:
        raise _failure(request, outcome)
    broken = (
        NoAnswer(plugin=info.name, distribution=info.distribution, cause=info.error)
        for info in installed
        if info.error is not None
    )
    return attrs.evolve(
        diagnosed,
        silent=(*diagnosed.silent, *broken),
        environment={**_versions(), **recorded_environment(request.environment)},
        seconds=outcome.seconds,
    )


def _structured(data: dict[str, Any]) -> Diagnosed:
    """Return the diagnosis that plain data describe.

    :raises PreparationFailed: if the data are invalid.
    """
    try:
        return structure(data, Diagnosed)
    except Exception as error:
        raise PreparationFailed(f"the diagnosis sent no valid answer: {error}") from error


def _without_answers(
    diagnosed: Diagnosed, asking: str | None, outcome: ProcessOutcome
) -> Diagnosed:
    """Return the diagnosis without the plugins' answers, if one of them ended the process."""
    cause = f"the process that asked it {outcome.cause or 'failed'}"
    silent = () if asking is None else (NoAnswer(plugin=asking, distribution="", cause=cause),)
    warning = "the other plugins could not be asked any more"
    return attrs.evolve(diagnosed, silent=silent, warnings=(*diagnosed.warnings, warning))


def _failure(request: Request, outcome: ProcessOutcome) -> Exception:
    message = outcome.message
    if message is None:
        cause = f"the diagnosis: {outcome.cause}"
        return PreparationFailed(cause, last_words(outcome.output_tail))
    text = str(message["message"])
    if request.debug and outcome.output_tail:
        text = f"{outcome.output_tail.rstrip()}\n{text}"
    if message["error"] == WorkloadError.__name__:
        key = f"workload.{request.recipe.workload.key}"
        return RecipeError([request.reading.problem(key, text)])
    if message["exit_code"] == InputError.exit_code:
        return InputError(text)
    return PreparationFailed(text)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in SOFTWARE}}
