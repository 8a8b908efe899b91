"""What a worker process does with a workload: its entry, the dry build, one side of a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import attrs

from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Answer, OthersServed, ProcessStarted, Tell
from tfopt_core.records.replay import Replayed
from tfopt_core.training.job import Job
from tfopt_core.training.replay.replay import replay
from tfopt_core.training.workload import Workload
from tfopt_core.trials.dry_build import prepare
from tfopt_core.workers.task import LookTask, PrepareTask, ReplayTask, RunTask, named_function

if TYPE_CHECKING:
    from tfopt_core.trials.scripts.own_loop import LoopOfScript


def carry_out(task: RunTask | LookTask, tell: Tell) -> Answer:
    """Start TensorFlow and carry out the task. Return the last message."""
    from tfopt_core.training.runtime import seen_by_tensorflow, start_tensorflow

    first = isinstance(task, RunTask) and task.job.runtime.builds_strategy_first
    start_tensorflow(task.job.runtime, debug=task.debug, devices=not first)
    task = attrs.evolve(task, job=seen_by_tensorflow(task.job))
    tell(ProcessStarted())
    if isinstance(task, LookTask):
        from tfopt_core.training.build import load

        return cast(Answer, named_function(task.look)(task, tell, load))
    from tfopt_core.trials.run import run

    if not first:
        return run(task, tell)
    from tfopt_core.training.distributed.serving import ending_together
    from tfopt_core.trials.cluster_start import join_cluster

    result = join_cluster(task, tell)
    if result is None:
        return OthersServed()
    task, joined = result
    with ending_together(joined.cluster):
        return run(task, tell, joined)


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
