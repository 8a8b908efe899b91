"""A training written down by a process of its own, which settings of "auto" need anyway."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.measure.export.child import PROGRAM
from tfopt_core.measure.export.program import Program
from tfopt_core.measure.isolate import ProcessOutcome, Runner, SpawnRunner
from tfopt_core.measure.request import Request, prepare
from tfopt_core.measure.supervise import Tell
from tfopt_core.measure.task import Task

CHILD = (sys.executable, "-P", "-m", "tfopt_core.measure.export.child")


@attrs.define(eq=False)
class _Listening:
    """Hands a preparation on, and keeps the program that came with it."""

    runner: Runner
    program: dict[str, Any] | None = None

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        outcome = self.runner(task, environment, tell)
        if outcome.message is not None and outcome.message["type"] == "prepared":
            self.program = outcome.message["prepared"].pop(PROGRAM)
        return outcome


def write_down(request: Request, runner: Runner | None = None) -> Program:
    """The training that `tfopt train` makes of this request, under its seed (1 if it has none).

    :raises: what `prepare` raises; and WorkloadError for a workload that has no plain form.
    """
    listening = _Listening(runner or SpawnRunner(program=CHILD))
    prepare(request, listening)
    return structure(listening.program, Program)
