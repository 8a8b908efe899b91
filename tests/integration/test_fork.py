"""A forked run is equal to a spawned one, cheap, and used only where that is known."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psutil
import pytest
from support.in_process import InProcessRunner
from support.measure_runs import make_request as make_request_of
from support.real_process import TINY, environment, make_project
from tfopt_data.prefetch import Prefetch
from tfopt_distribute.one_device import OneDevice

from tfopt_core.commands.request import make_request
from tfopt_core.hooks.machine import Gpu
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.statistics.runs import BASELINE, FULL
from tfopt_core.testing import make_machine
from tfopt_core.training.job import Job
from tfopt_core.training.messages import RunReport
from tfopt_core.training.runtime import process_environment
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Request, ScheduledRun, Variant
from tfopt_core.workers import fork
from tfopt_core.workers.fork import ForkRunner, may_fork
from tfopt_core.workers.spawn import FELL_BACK, SpawnRunner
from tfopt_core.workers.supervise import Limits
from tfopt_core.workers.task import RunTask, Task

# Everything that draws random numbers: weights, dropout, the order of examples, augmentation.
RANDOM = """
    import keras, numpy as np, tensorflow as tf
    from tfopt_core import Workload

    def build(**options):
        x = np.random.default_rng(1).normal(size=(512, 8)).astype("float32")
        noisy = lambda x, y: (x + tf.random.normal((8,), stddev=0.1), y)
        data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).map(noisy)
        def build_model():
            return keras.Sequential([
                keras.layers.Input((8,)), keras.layers.Dense(32, activation="relu"),
                keras.layers.Dropout(0.3), keras.layers.Dense(1)])
        return Workload(train=data, build_model=build_model, loss="mse")
"""


def task_in(folder: Path, name: str, **changes) -> Task:
    recipe = Recipe(
        name="r",
        workload=WorkloadSpec(factory=f"{name}.py:build", epochs=2, batch_size=32),
        path=folder / "recipe.toml",
    )
    job = Job(
        recipe=recipe, plugins=(), variant="baseline", seed=5, machine=make_machine(),
        folder=folder / "runs" / changes.pop("run", "r"),
    )  # fmt: skip
    return RunTask(**{"job": job, "forks": True, **changes})


@functools.cache
def first_environment() -> dict[str, str]:
    """The environment before TensorFlow is imported here, which changes it."""
    return environment()


def environment_of(task: Task, **changes: str) -> dict[str, str]:
    return process_environment({**first_environment(), **changes}, task.job.runtime, debug=False)


def told(outcome):
    assert outcome.message is not None, (outcome.cause, outcome.output_tail)
    assert isinstance(outcome.message, RunReport), (outcome.message, outcome.output_tail)
    return outcome.message


@pytest.fixture(scope="module")
def forking() -> Iterator[ForkRunner]:
    """One server for several tests; it is gone at the end."""
    before = psutil.Process().children()
    with ForkRunner() as runner:
        yield runner
    assert psutil.Process().children() == before


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_forked_run_has_the_losses_of_this_process(forking, tmp_path):
    project = make_project(tmp_path, "", noisy=RANDOM)
    histories = []
    for runner in (forking, InProcessRunner()):
        task = task_in(project, "noisy", run=f"{runner is forking}")
        outcome = runner(task, environment_of(task), lambda message: None)
        histories.append(told(outcome).fits[0].history)
    assert histories[0] == histories[1]
    assert len(histories[0]["loss"]) == 2


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.tensorflow
def test_forks_of_one_server_are_processes_of_their_own(forking, tmp_path, capfd):
    says = """import atexit, os, subprocess, sys, threading, time
        subprocess.Popen(["sleep", "607"], start_new_session=True)
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread done"))).start()
        atexit.register(print, "at the end")
        print("my process", os.getpid(), os.getsid(0), sys.argv[0] != "")
        os.environ["LEFT_BEHIND"] = os.environ.get("LEFT_BEHIND", "") + "x"
        print("left behind:", os.environ["LEFT_BEHIND"])"""
    project = make_project(tmp_path, "", tiny=TINY.format(says=says))
    outputs, servers = [], set()
    for number in range(2):
        task = task_in(project, "tiny", run=str(number))
        servers.add(forking._server(environment_of(task)))
        outcome = forking(task, environment_of(task), lambda message: None)
        run = told(outcome)
        assert outcome.left_behind == ("sleep 607",)
        assert run.cpu_seconds > 0
        assert run.peak_rss_bytes > 100 * 2**20
        outputs.append(outcome.output_path.read_text())
    aloud = forking.with_spawn(SpawnRunner(capture=False))
    task = task_in(project, "tiny", run="aloud")
    assert aloud(task, environment_of(task), lambda message: None).output_path is None
    assert "left behind: x" in capfd.readouterr().out
    assert servers == {forking._server(environment_of(task))}
    pids = {line.split()[2] for out in outputs for line in out.splitlines() if "process" in line}
    assert len(pids) == 2
    assert all(f"my process {pid} {pid} " in "".join(outputs) for pid in pids)
    assert all("left behind: x\n" in out for out in outputs)
    assert all(out.count("thread done\n") == out.count("at the end\n") == 1 for out in outputs)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_training_that_prints_as_it_goes_is_not_begun_again_when_what_keeps_it_dies(
    forking, tmp_path
):
    project = make_project(tmp_path, "", tiny=TINY.format(says="import time; time.sleep(60)"))
    task = task_in(project, "tiny")
    aloud = forking.with_spawn(SpawnRunner(capture=False))

    def kill_its_keeper(message):
        server = forking._server(environment_of(task))
        for keeper in psutil.Process(server.process.pid).children():
            keeper.kill()

    outcome = aloud(task, environment_of(task), kill_its_keeper)
    forking.close()  # the next test starts another one
    assert outcome.message is None
    assert outcome.cause.startswith("killed by SIGKILL")
    assert outcome.started == "forked"


SCRIPT = """
    import os
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["KERAS_BACKEND"] = "tensorflow"
    {sets}
    import keras
    import numpy as np

    log = open("written.txt", "w")
    log.write("left open, and in a cycle")
    log.itself = log
    x = np.random.default_rng(1).normal(size=(512, 8)).astype("float32")
    model = keras.Sequential([
        keras.layers.Input((8,)), keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.3), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, x[:, :1], epochs=2, verbose=0)
"""

# A fork server on a machine that refuses a mount after the private folder was begun.
REFUSED = """
import os, socket, sys
from tfopt_core.scripts.folders import overlay_mount
from tfopt_core.workers import fork_server

def refused(folders, place, through):
    os.makedirs(place + "/nothing")
    raise OSError(1, "not permitted")

overlay_mount.mount_overlays = refused
fork_server.serve(socket.socket(fileno=int(sys.argv[1])))
"""
SCHEDULED = ScheduledRun(0, 0, Variant(BASELINE, ()), 5)


def prepared_script(folder: Path, text: str, runner: ForkRunner, **modules: str) -> Request:
    """The request of a script's measurement behind its dry build."""
    project = make_project(folder, '[workload]\nscript = "train.py"\n', train=text, **modules)
    request, _ = make_request(str(project / "recipe.toml"), [], compares=False, keeps=False)
    request = attrs.evolve(request, folder=folder.parent / "runs" / folder.name)
    return prepare(request, runner)[1]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.thorough
def test_a_script_runs_in_a_fork_unless_it_sets_what_tensorflow_may_read(forking, tmp_path):
    results = []
    for name, sets in {"fork": "", "spawn": 'os.environ["ANY_OTHER"] = "1"'}.items():
        request = prepared_script(tmp_path / name, SCRIPT.format(sets=sets), forking)
        results.append(Processes(request, forking).run(SCHEDULED, "r", lambda message: None))
        # in its private folder, which a fork mounts itself
        assert not (tmp_path / name / "written.txt").exists()
        assert results[-1].written == ("written.txt (new)",)
    forked, spawned = results
    assert (forked.started, spawned.started) == ("forked", "spawned")
    assert forked.fit.history == spawned.fit.history
    assert len(forked.fit.history["loss"]) == 2


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.thorough
def test_a_script_whose_fork_cannot_mount_or_loses_its_server_is_run_by_a_new_process(
    tmp_path, monkeypatch
):
    def made(runner: ForkRunner, tell: Callable[[object], None] = lambda message: None) -> None:
        run = Processes(request, runner).run(SCHEDULED, "r", tell)
        assert run.started == FELL_BACK, run.error
        assert run.written == ("written.txt (new)",)
        assert len(run.fit.history["loss"]) == 2

    with ForkRunner() as runner:
        request = prepared_script(tmp_path / "script", SCRIPT.format(sets=""), runner)

        def kill_both(message: object) -> None:
            for server in runner._servers.values():
                with contextlib.suppress(psutil.NoSuchProcess):  # killed at an earlier message
                    forks = psutil.Process(server.process.pid).children()
                    for process in (server.process, *forks):
                        process.kill()

        made(runner, kill_both)
    monkeypatch.setattr(fork, "PROGRAM", (sys.executable, "-c", REFUSED))
    with ForkRunner() as runner:
        made(runner)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("beside", ["timeit.py", "keras_cv.py"])
def test_a_script_beside_a_module_that_forks_have_from_elsewhere_is_not_forked(
    forking, tmp_path, beside
):
    modules = {beside.removesuffix(".py"): "mine = True"}
    request = prepared_script(tmp_path, SCRIPT.format(sets=""), forking, **modules)
    assert request.forks == (beside == "keras_cv.py")


@pytest.mark.parametrize(("plugin", "forks"), [(OneDevice(), False), (Prefetch(), True)])
def test_no_run_of_a_script_is_forked_if_a_plugin_builds_a_strategy(tmp_path, plugin, forks):
    plugins, folder = (StackedPlugin("p", plugin),), tmp_path / "runs"
    spec = WorkloadSpec(script="train.py")
    request = make_request_of(spec, plugins=plugins, folder=folder, forks=True)
    tasks = []

    def runner(task, environment, tell):
        tasks.append(task)
        raise KeyboardInterrupt

    for variant in (Variant(BASELINE, ()), Variant(FULL, request.plugins)):
        with pytest.raises(KeyboardInterrupt):
            Processes(request, runner).run(
                ScheduledRun(0, 0, variant, 1), "r", lambda message: None
            )
    assert [task.forks for task in tasks] == [forks, forks]


# What a fork of a process does that had used TensorFlow; this one has not even imported it.
HANGING = """
import os, socket, sys, time
from tfopt_core.workers import fork_server

os.register_at_fork(after_in_child=lambda: time.sleep(600))
fork_server.PRELOADED = ()
fork_server.serve(socket.socket(fileno=int(sys.argv[1])))
"""


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_after_a_fork_that_gives_no_sign_of_life_none_is_forked(tmp_path, monkeypatch):
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    monkeypatch.setattr(fork, "PROGRAM", (sys.executable, "-c", HANGING))
    monkeypatch.setattr(fork, "START_SECONDS", 0.5)
    task = task_in(project, "tiny")
    with ForkRunner(InProcessRunner(limits=Limits())) as runner:
        for _ in range(2):
            outcome = runner(task, environment_of(task), lambda message: None)
            assert outcome.started == FELL_BACK
            told(outcome)
            assert not runner._servers


def test_what_may_not_be_forked_is_spawned(tmp_path):
    task = task_in(tmp_path, "tiny")
    assert may_fork(task, {})
    gpu = attrs.evolve(make_machine(), gpus=(Gpu("a GPU", (9, 0), 2**36),))
    refused = {
        "driver": attrs.evolve(task, job=attrs.evolve(task.job, machine=gpu)),
        "script": attrs.evolve(
            task,
            forks=False,
            job=attrs.evolve(
                task.job, recipe=Recipe(name="r", workload=WorkloadSpec(script="train.py"))
            ),
        ),
        "messages": attrs.evolve(task, debug=True),
    }
    forks = attrs.evolve(refused["script"], forks=True)
    assert may_fork(forks, {})
    refused["user's own"] = attrs.evolve(forks, measured=False)
    assert [name for name, what in refused.items() if may_fork(what, {})] == []
