"""One process carries out several tasks; a fork server tries its first fork."""

import os
import sys

import psutil
import pytest

from tfopt_core.errors import CannotShare
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.job import Job
from tfopt_core.workers.spawn import SharedProcess, SpawnRunner
from tfopt_core.workers.supervise import Limits
from tfopt_core.workers.task import PrepareTask

# Answers each task with its own number and the name of the task's variant; ends at "last".
ANSWERS = """
import os, socket, sys, threading, time
from tfopt_core.workers.task import Failure
from tfopt_core.workers.task import Parent, receive_task

channel = socket.socket(fileno=int(sys.argv[1]))
parent, task = Parent(channel), receive_task(channel)
while task.job.variant != "last":
    if task.job.variant == "slow":
        time.sleep(600)
    parent(Failure(error="E", message=f"{os.getpid()} {task.job.variant}", exit_code=3))
    task = parent.next_task()
"""


@pytest.fixture
def shared():
    with SharedProcess(SpawnRunner(program=(sys.executable, "-c", ANSWERS))) as made:
        yield made


def carry_out(shared, folder, variant, *, follows=True):
    recipe = Recipe(name="r", workload=WorkloadSpec(script="train.py"))
    job = Job(
        recipe=recipe, plugins=(), variant=variant, seed=1, machine=make_machine(), folder=folder
    )
    task = PrepareTask(job=job, stays=True, follows=follows)
    return shared(task, os.environ, lambda message: None)


def answer(outcome):
    assert outcome.message is not None, (outcome.cause, outcome.output_tail)
    pid, variant = outcome.message.message.split()
    return int(pid), variant


def test_tasks_that_follow_go_to_the_same_process_until_it_is_closed(shared, tmp_path):
    first, named = answer(carry_out(shared, tmp_path, "one", follows=False))
    assert named == "one"
    assert answer(carry_out(shared, tmp_path, "two")) == (first, "two")
    assert answer(carry_out(shared, tmp_path, "three")) == (first, "three")
    shared.close()
    assert not psutil.pid_exists(first)
    with pytest.raises(CannotShare, match="is gone"):
        carry_out(shared, tmp_path, "four")


def test_a_process_that_ends_without_an_answer_shares_nothing_more(shared, tmp_path):
    carry_out(shared, tmp_path, "one", follows=False)
    for _ in range(2):
        with pytest.raises(CannotShare):
            carry_out(shared, tmp_path, "last")


def test_a_task_that_takes_too_long_is_called_off_with_its_process(shared, tmp_path):
    first, _ = answer(carry_out(shared, tmp_path, "one", follows=False))
    shared.limits = Limits(called_off=lambda: "it took too long")
    outcome = carry_out(shared, tmp_path, "slow")
    assert outcome.message is None
    assert outcome.cause == "it took too long"
    assert not psutil.pid_exists(first)
