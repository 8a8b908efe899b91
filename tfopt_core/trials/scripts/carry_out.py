"""The entry function of a worker process for scripts."""

from __future__ import annotations

from typing import Any

from tfopt_core.errors import InputError, WorkloadError
from tfopt_core.trials.scripts.look import ScriptLook
from tfopt_core.trials.scripts.run import Send
from tfopt_core.trials.scripts.training import ScriptTraining
from tfopt_core.workers.task import Task


def carry_out(task: Task, send: Send) -> dict[str, Any]:
    """Run the script for the task and return the final message.

    :raises WorkloadError: if the fit of the task never came.
    :raises InputError: for a stack over several processes.
    """
    if task.job.runtime.builds_strategy_first:
        raise InputError(
            "the stack trains over several processes, and each of them would run the script; "
            "write a factory for it"
        )
    send({"type": "started"})
    if task.kind == "run":
        training = ScriptTraining(task, send)
        with training.placed() as path:
            end = training.to_its_end(path)
        return {"type": "result", "run": training.result(end)}
    look = ScriptLook(task, send)
    with look.placed() as path:
        end = look.to_its_end(path)
    raise WorkloadError(look.in_words(look.why_nothing(end)))
