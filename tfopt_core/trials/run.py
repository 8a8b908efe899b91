"""Train once in a worker process, and return the figures of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import attrs

from tfopt_core.hooks import RunContext
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Answer, OthersServed, ProcessStarted, Tell
from tfopt_core.records.replay import Replayed
from tfopt_core.records.run import RunReport
from tfopt_core.training.build import build, load
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.clock import running_ns
from tfopt_core.training.fit import train
from tfopt_core.training.fit_monitor import CutsShort
from tfopt_core.training.job import Job
from tfopt_core.training.replay.replay import replay
from tfopt_core.training.strategy import Joined
from tfopt_core.training.workload import Workload
from tfopt_core.trials.cluster_start import check_built
from tfopt_core.trials.dry_build import prepare
from tfopt_core.trials.turns import Pacing, Turn, first_warm_steps
from tfopt_core.workers.task import LookTask, PrepareTask, ReplayTask, RunTask, named_function
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes

if TYPE_CHECKING:
    from tfopt_core.trials.scripts.own_loop import LoopOfScript


def pacing_of(task: RunTask, run: RunContext, turn: Turn | None) -> CutsShort | None:
    """Return what stops a run of a task for others and cuts it short; None if nothing does.

    :param turn: the turns of the process, None where it takes none.
    """
    if task.expendable:
        return first_warm_steps
    if task.warm_seconds is None and turn is None:
        return None
    return Pacing(
        epochs=run.epochs, steps_per_epoch=run.steps_per_epoch, warm_seconds=task.warm_seconds,
        turn=turn,
    )  # fmt: skip


def run(task: RunTask, tell: Tell, joined: Joined | None = None) -> RunReport:
    """Train once, and return what was observed.

    :param joined: a strategy that was built first.
    """
    workload = load(task.job)
    # joining the other processes is part of the training's time
    joining = 0 if joined is None else joined.nanoseconds
    started = running_ns() - joining
    built = build(task.job, workload, joined=joined)
    if joined is not None:
        check_built(built)
    turn = Turn(tell) if task.in_turns else None
    cuts_short = None if joined is not None else pacing_of(task, built.run, turn)
    chief = built.run.cluster is None or built.run.cluster.is_chief
    checkpointer = (
        None if task.checkpoints is None else Checkpointer(task.checkpoints, tell, writes=chief)
    )
    outcome = train(built, started, tell, cuts_short, checkpointer)
    if joined is not None and joined.cluster is not None:
        outcome = attrs.evolve(outcome, cluster_seconds=joining / 1e9)
    effects = built.stack.report_effects(built.run, built.model)
    peak_rss, peak_device = peak_rss_bytes(), peak_device_bytes()
    if task.save_to is not None and (built.run.cluster is None or built.run.cluster.is_chief):
        built.stack.unwrap(built.model).save(task.save_to)
    return RunReport(
        wall_seconds=outcome.wall_seconds,
        peak_rss_bytes=peak_rss,
        peak_device_bytes=peak_device,
        cpu_seconds=cpu_seconds(),
        effects=effects,
        fits=(outcome,),
    )


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
