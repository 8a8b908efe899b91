"""A cluster on this machine, its roles played by small scripts: ends, causes, silence."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import attrs
import psutil
import pytest

from tfopt_core.hooks.context import ClusterOptions
from tfopt_core.hooks.values import RuntimeOptions
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.job import Job
from tfopt_core.training.messages import ClusterJoined, ClusterJoining, EpochDone, RunReport
from tfopt_core.trials.outcomes import remove_private_files
from tfopt_core.workers import supervise
from tfopt_core.workers.local_cluster import LocalCluster, environment_of, free_addresses, roles_of
from tfopt_core.workers.spawn import ProcessOutcome, SpawnRunner
from tfopt_core.workers.supervise import Limits
from tfopt_core.workers.task import Failure, OthersServed, PrepareTask, RunTask

FAKE = str(Path(__file__).parents[2] / "support" / "fake_role.py")
TRAINS = [["epoch", 0.5], ["result", 0]]
# Longer than any of these tests may take: whatever waits so long was not ended.
FOR_EVER = 600
SLEEPS = [["sleep", FOR_EVER]]
AHEAD_SECONDS = 600.0


def task_of(folder: Path, **cluster) -> RunTask:
    options = ClusterOptions(**cluster) if cluster else None
    job = Job(
        recipe=Recipe(name="r", workload=WorkloadSpec(use="w")), plugins=(), variant="full",
        seed=1, machine=make_machine(), folder=folder / "run",
        runtime=RuntimeOptions(cluster=options),
    )  # fmt: skip
    return RunTask(job=job, save_to=folder / "model.keras")


def failed(cause: str) -> Failure:
    return Failure(error="E", message=cause, exit_code=3)


@attrs.frozen
class InThread:
    """Plays a role without any process, as far as that goes."""

    scenario: dict
    limits: Limits = attrs.field(factory=Limits)

    def __call__(self, task, environment, tell):
        message = cause = None
        for verb, argument in self.scenario[task.job.folder.name]:
            if verb == "epoch":
                tell(EpochDone(0, {"loss": argument}))
            elif verb == "sleep":
                until = time.monotonic() + argument
                while time.monotonic() < until and not (cause := self.limits.called_off()):
                    time.sleep(0.01)
            elif verb == "error":
                message = failed(argument)
            elif verb == "kill":
                cause = "killed by SIGKILL"
            elif verb == "served":
                message = OthersServed()
            elif verb == "result":
                message = RunReport(fits=(), cpu_seconds=0.0)
            if message or cause:
                break
        return ProcessOutcome(
            message=None if cause else message, cause=cause, seconds=1.0, output_path=None,
            output_tail=task.job.folder.name,
        )  # fmt: skip


@attrs.define
class Played:
    outcome: ProcessOutcome
    told: list
    said: list
    roles: list
    ends: dict


@pytest.fixture
def later(monkeypatch):
    """`later(condition)`: the clock of time limits is ten minutes ahead while that is true."""

    def go(condition):
        clock = SimpleNamespace(
            monotonic=lambda: time.monotonic() + AHEAD_SECONDS * bool(condition()), sleep=time.sleep
        )
        monkeypatch.setattr(supervise, "time", clock)

    return go


@pytest.fixture
def play(tmp_path):
    """Trains with roles that are processes if that is asked for, else threads.

    Each is waited for as long as it takes, unless the test says which waiting is in vain.
    """

    def go(scenario, processes=False, on_told=lambda message: None, waits=None, **cluster):
        told, said, roles, ends = [], [], [], []
        seconds = dict.fromkeys(("loss_seconds", "end_seconds", "served_seconds"), FOR_EVER)

        def tell(message):
            told.append(message)
            on_told(message)

        spawn = SpawnRunner(program=(sys.executable, FAKE)) if processes else InThread(scenario)
        runner = LocalCluster(
            spawn=spawn,
            on_begin=roles.append,
            on_message=lambda role, message: said.append((role.name, type(message))),
            on_end=ends.extend,
            **{**seconds, **(waits or {})},
        )
        begun = time.monotonic()
        outcome = runner(
            task_of(tmp_path, **cluster), {**os.environ, "SCENARIO": json.dumps(scenario)}, tell
        )
        assert left_behind() == []
        assert time.monotonic() - begun < FOR_EVER / 2
        return Played(outcome, told, said, roles, {end.role.name: end for end in ends})

    return go


def left_behind():
    """The processes of roles that still run."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if FAKE in " ".join(child.cmdline())]


def test_the_chiefs_result_is_that_of_the_training(play):
    plays = {"worker-0": TRAINS, "worker-1": [["epoch", 0.7], ["result", 0]]}
    played = play(plays, processes=True, workers=2)
    assert played.outcome.cause is None
    assert isinstance(played.outcome.message, RunReport)
    # what all roles computed, the import of Python modules at least
    assert played.outcome.message.cpu_seconds > 0
    assert [message.metrics for message in played.told] == [{"loss": 0.5}]
    assert played.said == [("worker 1", EpochDone)]
    assert played.ends["worker 1"].metrics == {"loss": 0.7}
    assert not any(end.failed or end.called_off for end in played.ends.values())


def test_each_role_has_a_folder_of_its_own_and_only_the_chief_saves(play, tmp_path):
    play({"worker-0": TRAINS, "worker-1": TRAINS}, processes=True, workers=2)
    outputs = {
        role: (tmp_path / "run" / role / "output.txt").read_text()
        for role in ("worker-0", "worker-1")
    }
    assert outputs == {"worker-0": "worker 0 says save\n", "worker-1": "worker 1 says nothing\n"}
    remove_private_files(tmp_path / "run")
    assert not list((tmp_path / "run").rglob("left-behind"))
    assert len(list((tmp_path / "run").rglob("output.txt"))) == 2


def test_a_worker_that_is_killed_is_the_cause_and_the_others_may_name_theirs(play):
    loses = [["epoch", 0.5], ["sleep", 0.2], ["error", "lost worker 1"]]
    played = play({"worker-0": loses, "worker-1": [["kill", 0]]}, processes=True, workers=2)
    assert played.outcome.message is None
    cause = played.outcome.cause
    assert cause.startswith("worker 1 was killed by SIGKILL (possibly out of memory, peak memory ")
    assert played.outcome.output_tail == "worker 1 says nothing\n"  # its, not the chief's
    assert played.ends["worker 0"].cause == "worker 0: lost worker 1"


def test_whoever_hangs_after_another_has_failed_is_killed(play):
    plays = {"worker-0": [["deaf", 0]], "worker-1": [["error", "its disk is full"]]}
    played = play(plays, processes=True, waits={"loss_seconds": 0.5}, workers=2)
    assert played.outcome.cause == "worker 1: its disk is full"
    assert played.ends["worker 0"].called_off
    assert not played.ends["worker 0"].failed


def test_joining_ends_with_joined(play, later):
    told = []
    later(lambda: ClusterJoined in told)
    # the limits are looked at before it has trained
    joins = [["join", 60], ["joined", 0], ["sleep", 0.5], *TRAINS]
    plays = {"worker-0": joins, "worker-1": TRAINS}
    played = play(
        plays, processes=True, on_told=lambda message: told.append(type(message)), workers=2
    )
    assert played.outcome.cause is None
    assert [type(message) for message in played.told][:2] == [ClusterJoining, ClusterJoined]


def test_servers_end_with_their_chief(play):
    plays = {"chief-0": TRAINS, "worker-0": [["served", 0]], "ps-0": SLEEPS}
    played = play(plays, waits={"served_seconds": 0.5}, workers=1, parameter_servers=1)
    assert isinstance(played.outcome.message, RunReport)
    assert played.ends["worker 0"].outcome.message == OthersServed()
    assert played.ends["parameter server 0"].called_off
    assert [role.name for role in played.roles[0]] == ["chief", "worker 0", "parameter server 0"]


def test_a_server_that_its_chiefs_end_tears_down_does_no_harm(play):
    played = play(
        {"chief-0": TRAINS, "worker-0": [["error", "the chief has gone"]], "ps-0": []},
        workers=1, parameter_servers=1,
    )  # fmt: skip
    assert isinstance(played.outcome.message, RunReport)


def test_a_server_that_dies_while_the_chief_trains_is_the_cause(play):
    played = play(
        {"chief-0": SLEEPS, "worker-0": SLEEPS, "ps-0": [["kill", 0]]},
        waits={"loss_seconds": 0.5, "served_seconds": 0.1}, workers=1, parameter_servers=1,
    )  # fmt: skip
    assert played.outcome.cause.startswith("parameter server 0 was killed by SIGKILL")


def test_a_worker_that_does_not_end_after_the_chief_is_said(play):
    slow = {"worker-0": TRAINS, "worker-1": SLEEPS}
    played = play(slow, waits={"end_seconds": 0.5}, workers=2)
    assert played.outcome.message is None
    assert played.outcome.cause == "worker 0 has trained, but worker 1 did not end"


def test_ctrl_c_ends_all_roles(play, tmp_path):
    sleeps = {"worker-0": SLEEPS, "worker-1": [["deaf", 0]]}
    marks = [tmp_path / "run" / f"worker-{index}" / "left-behind" for index in range(2)]

    def interrupt():
        while not all(mark.exists() for mark in marks):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        play(sleeps, processes=True, workers=2)
    assert left_behind() == []


@pytest.mark.parametrize(("prepares", "cluster"), [(True, {"workers": 2}), (False, {})])
def test_whatever_is_no_run_of_a_cluster_has_one_process(tmp_path, prepares, cluster):
    taken = []
    runner = LocalCluster(spawn=lambda task, *_: taken.append(task))
    task = task_of(tmp_path, **cluster)
    if prepares:
        task = PrepareTask(job=task.job)
    runner(task, {}, lambda message: None)
    assert taken == [task]


def test_addresses_are_all_different():
    assert len(set(free_addresses(50))) == 50


def test_gpus_are_dealt_out_and_servers_get_none():
    roles = roles_of(ClusterOptions(workers=2, parameter_servers=1))

    def visible(gpus, **environment):
        return [
            environment_of(role, environment, gpus).get("CUDA_VISIBLE_DEVICES") for role in roles
        ]

    assert visible(0) == [None] * 4
    assert visible(4) == ["-1", "0,1", "2,3", "-1"]
    assert visible(4, CUDA_VISIBLE_DEVICES="3,5") == ["-1", "3", "5", "-1"]
    # one for two: they share it, and must not take all of its memory at once
    shared = environment_of(roles[1], {}, 1)
    assert shared["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "CUDA_VISIBLE_DEVICES" not in shared


def test_tf_config_describes_each_role():
    roles = roles_of(ClusterOptions(workers=2))
    config = json.loads(environment_of(roles[1], {"A": "b"}, 0)["TF_CONFIG"])
    assert config == {
        "cluster": {"worker": [role.address for role in roles]},
        "task": {"type": "worker", "index": 1},
    }
