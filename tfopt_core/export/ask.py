"""Export a training in a separate process, which first resolves settings of "auto"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.export.program import PROGRAM, Program
from tfopt_core.trials.request import Request, prepare
from tfopt_core.workers.spawn import ProcessOutcome, Runner, SpawnRunner
from tfopt_core.workers.supervise import Tell
from tfopt_core.workers.task import Task

# The functions that the process runs, see `Task`.
EXPORTED = "tfopt_core.export.look:exported"
EXPORTED_SCRIPT = "tfopt_core.export.script_look:exported_script"


@attrs.define(eq=False)
class _Listening:
    """A runner that keeps the program that a dry build returns."""

    runner: Runner
    program: dict[str, Any] | None = None

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        if task.job.recipe.workload.script is None:
            task = attrs.evolve(task, look=EXPORTED)
        else:
            task = attrs.evolve(task, function=EXPORTED_SCRIPT)
        outcome = self.runner(task, environment, tell)
        if outcome.message is not None and outcome.message["type"] == "prepared":
            self.program = outcome.message["prepared"].pop(PROGRAM)
        return outcome


def write_down(request: Request, runner: Runner | None = None) -> Program:
    """Return a program that trains this request as `tfopt train` does, with its seed or 1.

    :raises WorkloadError: for a workload without a plain form; and what `prepare` raises.
    """
    listening = _Listening(runner or SpawnRunner())
    prepare(request, listening)
    return structure(listening.program, Program)
