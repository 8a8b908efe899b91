"""The task of an export's process for a script: run it up to the fit that is exported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from cattrs import unstructure

from tfopt_core.errors import WorkloadError
from tfopt_core.export.look import resolved
from tfopt_core.export.program import PROGRAM, Program
from tfopt_core.export.script import CallPlace, script_program
from tfopt_core.export.written import without_the_unwritable
from tfopt_core.private_api import why_without
from tfopt_core.training.build import build
from tfopt_core.training.job import Job
from tfopt_core.trials.scripts.look import Load, ScriptLook
from tfopt_core.workers.task import Task


def exported_script(task: Task, send: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run the script; the process ends once the fit is exported.

    :raises WorkloadError: for a script that never calls `fit`.
    """
    send({"type": "started"})
    # keep the script's own seeds, as `tfopt train` does
    script = _Exported(attrs.evolve(task, own_seeds=True), send)
    with script.placed() as path:
        script.path = path
        end = script.to_its_end(path)
    raise WorkloadError(script.in_words(script.why_nothing(end)))


@attrs.define(eq=False)
class _Exported(ScriptLook):
    path: Path = attrs.field(factory=Path)

    def _examine(self, load: Load) -> dict[str, Any]:
        place = CallPlace(
            text=self.path.read_text(encoding="utf-8"),
            line=self._line(),
            global_seed=_global_seed(),  # before the dry build sets another
        )
        message = super()._examine(load)
        message["prepared"][PROGRAM] = unstructure(self._program(message["prepared"], load, place))
        return message

    def _program(self, prepared: dict[str, Any], load: Load, place: CallPlace) -> Program:
        job = attrs.evolve(
            self.task.job,
            plugins=resolved(self.task, prepared),
            machine=self.session.run.machine,
        )

        def write(job: Job, left_out: dict[str, str]) -> Program:
            return script_program(build(job, load(job)), place, left_out)

        return without_the_unwritable(job, write)

    def _line(self) -> int | None:
        """Return the line of the script that is executing, None if another file calls."""
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename == str(self.path):
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return None


def _global_seed() -> int | None:
    """Return TensorFlow's global seed.

    :raises WorkloadError: if the installed TensorFlow does not provide it.
    """
    missing = why_without("script-exported")
    if missing:
        raise WorkloadError(missing)
    from tensorflow.python.eager import context

    seed = context.global_seed()
    return None if seed is None else int(seed)
