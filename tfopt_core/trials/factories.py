"""The entry function of a worker process for workloads that a factory builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.workers.task import Task, named_function

Send = Callable[[dict[str, Any]], None]


def carry_out(task: Task, send: Send) -> dict[str, Any]:
    """Start TensorFlow, carry out the task and return the last message."""
    from tfopt_core.training.runtime import start_tensorflow

    trains = task.kind == "run"
    first = trains and task.job.runtime.builds_strategy_first
    start_tensorflow(task.job.runtime, debug=task.debug, devices=not first)
    send({"type": "started"})
    if not trains:
        from tfopt_core.training.build import load

        return dict(named_function(task.look)(task, send, load))
    from tfopt_core.trials.run import run

    if not first:
        return {"type": "result", "run": run(task, send)}
    from tfopt_core.training.distributed.ending import ending_together
    from tfopt_core.trials.cluster_start import join_cluster

    result = join_cluster(task, send)
    if result is None:
        return {"type": "served"}
    task, joined = result
    with ending_together(joined.cluster):
        return {"type": "result", "run": run(task, send, joined)}
