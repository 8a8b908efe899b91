"""The tasks that train no run: the dry build, and one side of a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Tell
from tfopt_core.records.replay import Replayed
from tfopt_core.training.job import Job
from tfopt_core.training.replay.replay import replay
from tfopt_core.training.workload import Workload
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import PrepareTask, ReplayTask

if TYPE_CHECKING:
    from tfopt_core.trials.scripts.own_loop import LoopOfScript

Load = Callable[[Job], Workload]


def prepared(task: PrepareTask, tell: Tell, load: Load) -> Prepared:
    """Return the result of a dry build."""
    return prepare(task, load)


def prepared_loop(task: PrepareTask, tell: Tell, loop: LoopOfScript) -> Prepared:
    """Return the result of a dry build of a script's own loop, from its first steps."""
    return loop.prepared(task)


def replayed(task: ReplayTask, tell: Tell, load: Load) -> Replayed:
    """Return one side's replay."""
    return replay(
        task.job, task.replay_folder, task.part, against=task.against, batches=task.batches,
        load=load,
    )  # fmt: skip
