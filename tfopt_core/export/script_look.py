"""The task of an export's process for a script: run it up to the fit that is exported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.export.look import resolved
from tfopt_core.export.script import CallPlace, script_program
from tfopt_core.export.written import without_the_unwritable
from tfopt_core.private_api import why_without
from tfopt_core.records.messages import Message, ProcessStarted
from tfopt_core.records.program import Exported, Program
from tfopt_core.training.build import build
from tfopt_core.training.job import Job
from tfopt_core.trials.dry_build import prepare
from tfopt_core.trials.looks import Load
from tfopt_core.trials.scripts.look import ScriptLook
from tfopt_core.workers.task import ExportTask


def exported_script(task: ExportTask, tell: Callable[[Message], None]) -> NoReturn:
    """End the process once the fit was written down; else raise.

    :raises WorkloadError: for a script that never calls `fit`.
    """
    tell(ProcessStarted())
    script = _Exported(task, tell)
    with script.placed() as path:
        script.path = path
        end = script.to_its_end(path)
    raise WorkloadError(script.in_words(script.why_nothing(end)))


@attrs.define(eq=False)
class _Exported(ScriptLook[ExportTask]):
    path: Path = attrs.field(factory=Path)

    @property
    def own_seeds(self) -> bool:
        """The script's own seeds stay, as in a training by `tfopt train`."""
        return True

    def _examine(self, load: Load) -> Exported:
        place = CallPlace(
            text=self.path.read_text(encoding="utf-8"),
            line=self._line(),
            global_seed=_global_seed(),  # before the dry build sets another
        )
        prepared = prepare(self.task, load)
        job = resolved(self.task.job, prepared)
        job = attrs.evolve(job, machine=self.session.run.machine)

        def write(job: Job, left_out: dict[str, str]) -> Program:
            return script_program(build(job, load(job)), place, left_out)

        return Exported(prepared, without_the_unwritable(job, write))

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
