"""Carry out the tasks of an unmodified script, each in a worker process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tfopt_core.errors import InputError, WorkloadError
from tfopt_core.records.messages import Answer, Message, ProcessStarted
from tfopt_core.trials.scripts.look import ScriptLook
from tfopt_core.trials.scripts.training import ScriptTraining
from tfopt_core.workers.task import LookTask, RunTask, reworded


def carry_out(task: RunTask | LookTask, tell: Callable[[Message], None]) -> Answer:
    """Run the script for the task. Return the last message.

    :raises WorkloadError: if the fit of the task never came.
    :raises InputError: for a stack over several processes.
    """
    if task.job.runtime.builds_strategy_first:
        raise InputError(
            "the stack trains over several processes, and each of them would run the script; "
            "write a factory for it"
        )
    tell(ProcessStarted())
    if isinstance(task, RunTask):
        training = ScriptTraining(task, tell)
        return training.report(training.to_its_end(training.enter_folder()))
    look = ScriptLook(task, tell)
    end = look.to_its_end(look.enter_folder())
    answer = look.at_the_end(end)
    if answer is not None:
        return cast(Answer, reworded(answer, look.in_words))
    raise WorkloadError(look.in_words(look.why_nothing(end)))
