"""The work of a worker process that trains no run: the dry build, and one side of a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cattrs import unstructure

from tfopt_core.training.job import Job
from tfopt_core.training.replay.replay import replay
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import Task

Send = Callable[[dict[str, Any]], None]
Load = Callable[[Job], Any]


def prepared(task: Task, send: Send, load: Load) -> dict[str, Any]:
    """Return the message of a dry build."""
    return {"type": "prepared", "prepared": prepare(task, load)}


def replayed(task: Task, send: Send, load: Load) -> dict[str, Any]:
    """Return the message of one side's replay."""
    assert task.replay_folder is not None
    return {
        "type": "replayed",
        "replayed": unstructure(replay(task.job, task.replay_folder, load)),
    }
