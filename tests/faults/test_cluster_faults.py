"""Trainings over several processes of which one dies, never comes or diverges."""

import contextlib
import json
import re
import signal

import psutil
import pytest
from support.real_process import (
    TIME_LIMIT_SECONDS,
    TINY,
    alive,
    descendants,
    environment,
    make_project,
    started,
    wait_until,
)

from tfopt_core.training.distributed.serving import answers
from tfopt_core.workers.local_cluster import free_addresses

pytestmark = pytest.mark.slow

JOIN_SECONDS = 3

RECIPE = """
    name = "tiny"
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "multi-worker"
    join_seconds = 900
    [measure]
    quality = { metric = "loss", tolerance = 1.0, direction = "min" }
"""


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path, RECIPE, tiny=TINY.format(says="pass"))


def flowing(text):
    return " ".join(text.split())


def printed(project, name="stdout.txt"):
    return (project / name).read_text()


def role_of(process):
    """Which role a process plays, None if it plays none."""
    with contextlib.suppress(psutil.Error):
        config = json.loads(process.environ().get("TF_CONFIG", "{}")).get("task")
        return config and f"{config['type']} {config['index']}"
    return None


def worker_environment(index, addresses):
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return environment(TF_CONFIG=json.dumps(config))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """Two first workers by name, at once since they mostly wait: "alone" waits for a second one in
    vain, and the parent of "killed" is killed while it waits.

    How each ended, what it printed and the addresses; and what of "killed" was there before.
    """
    projects = {
        name: make_project(tmp_path_factory.mktemp(name), RECIPE, tiny=TINY.format(says="pass"))
        for name in ("alone", "killed")
    }
    addresses = {name: free_addresses(2) for name in projects}
    short = ("--set", f"plugins.multi-worker.join_seconds={JOIN_SECONDS}")
    processes = {}
    with contextlib.ExitStack() as stack:
        for name, project in projects.items():
            processes[name] = stack.enter_context(
                started(
                    "train", "recipe.toml", *(short if name == "alone" else ()),
                    cwd=project, env=worker_environment(0, addresses[name]),
                )
            )  # fmt: skip
        # from then on TensorFlow waits, and answers to nothing
        wait_until("it to listen", lambda: answers(addresses["killed"][0]))
        left = descendants(processes["killed"])
        processes["killed"].kill()
        wait_until("the others' death", lambda: not alive(left))
        codes = {name: process.wait(TIME_LIMIT_SECONDS) for name, process in processes.items()}
    ends = {n: (code, flowing(printed(projects[n])), addresses[n]) for n, code in codes.items()}
    return ends, left


# tests/unit/workers/test_local_cluster.py kills one of two roles that are no TensorFlow, which
# takes its time to notice.
@pytest.mark.promise(38, injected="SIGKILL of one worker while it trains")
@pytest.mark.thorough
def test_a_worker_that_is_killed_is_named_by_both_sides_and_no_process_is_left(project):
    # new processes, which are known by their environment
    with started(
        "launch", "recipe.toml", "--set", "workload.epochs=100000", cwd=project, anew=True
    ) as process:

        def trains():
            texts = [printed(project, f"std{name}.txt") for name in ("out", "err")]
            assert process.poll() is None, texts
            return "epoch 3/" in texts[0]

        wait_until("the third epoch", trains)
        left = descendants(process)
        roles = {role_of(each): each for each in left}
        assert {"worker 0", "worker 1"} <= set(roles)
        roles["worker 1"].send_signal(signal.SIGKILL)
        assert process.wait(TIME_LIMIT_SECONDS) == 3
        wait_until("the others' death", lambda: not alive(left))
    said = flowing(printed(project))
    assert "the training failed: worker 1 was killed by SIGKILL" in said
    # what the other says is its own finding, or it was ended within the limit
    causes = said.partition("Causes")[2]
    assert re.search(r"worker 0: worker 1 \(127\.0\.0\.1:\d+\) is gone", causes), said
    assert "Traceback" not in printed(project, "stderr.txt")


@pytest.mark.promise(39, injected="a second worker that is never started")
def test_a_worker_that_never_comes_is_named_within_the_limit(waiting):
    code, out, addresses = waiting[0]["alone"]
    assert code == 3
    missing = f"worker 1 ({addresses[1]})"
    assert f"the training failed: {missing} did not come within {JOIN_SECONDS} s" in out


def test_a_process_that_waits_for_others_dies_with_its_parent(waiting):
    _, left = waiting
    assert len(left) == 2  # the worker, and the process that ends what it leaves behind
    assert not alive(left)
