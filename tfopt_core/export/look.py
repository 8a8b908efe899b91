"""The task of an export's process for a factory: a dry build, then the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from cattrs import unstructure

from tfopt_core.export.program import PROGRAM
from tfopt_core.export.written import written
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.training.job import Job
from tfopt_core.training.timing.devices import as_tensorflow_sees
from tfopt_core.trials import looks
from tfopt_core.trials.request import with_settings
from tfopt_core.workers.task import Task

Send = Callable[[dict[str, Any]], None]


def exported(task: Task, send: Send, load: Callable[[Job], Any]) -> dict[str, Any]:
    """Return the message of a dry build, with the program added."""
    message = looks.prepared(task, send, load)
    job = attrs.evolve(
        task.job,
        plugins=resolved(task, message["prepared"]),
        machine=as_tensorflow_sees(task.job.machine),
    )
    program = written(job, load(job))
    message["prepared"][PROGRAM] = unstructure(program)
    return message


def resolved(task: Task, prepared: dict[str, Any]) -> tuple[StackedPlugin, ...]:
    """Return the task's plugins with their resolved settings."""
    return with_settings(task.job.plugins, [plan["settings"] for plan in prepared["plugins"]])
