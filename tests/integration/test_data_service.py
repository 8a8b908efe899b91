"""The data service with real processes: every example once, and nobody left behind."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import psutil
import pytest
from support.lazy_modules import tf
from support.real_process import TIME_LIMIT_SECONDS, alive, descendants, environment, wait_until
from tfopt_data.data_service import DataService

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_run, stack_of

pytestmark = pytest.mark.slow

EXAMPLES = 200
# Starts a service of one worker and waits. The sleeper that it forks keeps the other end of the
# worker's input open, as a workload's own processes may.
PARENT = """
    import os, pathlib, sys, time
    from tfopt_data.service_local import LocalService

    service = LocalService.start(1, 0, pathlib.Path(sys.argv[1]))
    if sys.argv[2] == "fork" and os.fork() == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    print(*[process.pid for process in service.processes], flush=True)
    time.sleep(600)
"""


def serving() -> list[psutil.Process]:
    """The processes of data services that this test started, and that run."""
    return [
        process
        for process in alive(psutil.Process().children(recursive=True))
        if "tfopt_data.service_process" in process.cmdline()
    ]


def shuffled_plan() -> DataPlan:
    x = np.arange(EXAMPLES, dtype="float32").reshape(-1, 1)
    return DataPlan.from_arrays(x, x).shuffle().map(lambda x, y: (x / EXAMPLES, y)).batch(16)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a service of two workers answers. Its servers are TensorFlow's own, in this process."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    config = service.WorkerConfig(dispatcher.target.removeprefix("grpc://"))
    workers = [service.WorkerServer(config) for _ in range(2)]
    yield dispatcher.target
    for server in (*workers, dispatcher):
        server.stop()


@pytest.fixture(scope="module")
def served(address: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Training data that the two workers share out."""
    stack = stack_of(DataService(address=address), build_dataset=shuffled_plan().prefetch())
    return lower(stack.build_dataset(make_run(folder=tmp_path_factory.mktemp("served")), "train"))


def assert_every_example_once_an_epoch_in_full_batches(served: Any) -> None:
    assert int(served.cardinality()) == 13
    epochs = [[y.numpy().ravel() for _, y in served] for _ in range(2)]
    for epoch in epochs:
        assert sorted(np.concatenate(epoch)) == list(range(EXAMPLES))
        assert [len(batch) for batch in epoch] == [16] * 12 + [8]
    assert not np.array_equal(np.concatenate(epochs[0]), np.concatenate(epochs[1]))


def test_two_workers_yield_every_example_once_an_epoch_in_full_batches(served: Any) -> None:
    assert_every_example_once_an_epoch_in_full_batches(served)


def test_several_replicas_read_from_it(served: Any) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.experimental_distribute_dataset(served)
    assert sum(int(tf.size(y)) for _, y in distributed) == EXAMPLES


@pytest.mark.thorough
def test_processes_of_its_own_are_shared_and_end_with_the_effect(tmp_path: Path) -> None:
    stack = stack_of(DataService(workers=2), build_dataset=shuffled_plan().prefetch())
    run = make_run(folder=tmp_path)
    dataset = lower(stack.build_dataset(run, "train"))
    assert_every_example_once_an_epoch_in_full_batches(dataset)
    before = {process.pid for process in serving()}
    assert len(before) == 2
    again = lower(stack.build_dataset(run, "train"))
    assert sum(len(y) for _, y in again) == EXAMPLES
    assert {process.pid for process in serving()} == before

    held = iter(dataset)  # an iterator that lives longer than the service
    next(held)
    run = attrs.evolve(run, datasets={"train": dataset})
    effect = stack.report_effects(run, None)["DataService"]
    assert effect.applied
    assert effect.detail == "train: after batch: 16, by 2 workers"
    assert not serving()
    del held


# What TensorFlow's servers do is no part of how their processes end: to import it takes seconds.
STAND_IN = """
    from types import SimpleNamespace

    def serve(config):
        return SimpleNamespace(target="grpc://127.0.0.1:1")

    service = SimpleNamespace(
        DispatchServer=serve, DispatcherConfig=dict, WorkerServer=serve, WorkerConfig=dict
    )
    data = SimpleNamespace(experimental=SimpleNamespace(service=service))
"""


@pytest.mark.parametrize(
    ("also", "real"),
    [("alone", False), ("fork", False), pytest.param("fork", True, marks=pytest.mark.thorough)],
)
def test_a_worker_does_not_outlive_a_killed_run(also: str, real: bool, tmp_path: Path) -> None:
    with _parent(tmp_path, also, real) as (parent, worker):
        sleepers = [process for process in descendants(parent) if process != worker]
        parent.kill()
        parent.wait()
        wait_until("the worker's end", lambda: not alive([worker]))
        for sleeper in sleepers:
            sleeper.kill()


@pytest.mark.thorough
def test_a_run_that_lost_a_worker_ends_and_says_so(tmp_path: Path) -> None:
    with _parent(tmp_path, "alone", real=True) as (parent, worker):
        os.kill(worker.pid, signal.SIGKILL)
        assert parent.wait(TIME_LIMIT_SECONDS) == 3
        assert parent.stderr is not None
        last = parent.stderr.read().strip().splitlines()[-1]
        assert last == "tfopt: data-service: worker 1 of 1 was killed by SIGKILL"


@contextmanager
def _parent(
    folder: Path, also: str, real: bool
) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A process that has started a service, and its worker."""
    site, script = folder / "site", folder / "parent.py"
    site.mkdir()
    if not real:
        (site / "tensorflow.py").write_text(textwrap.dedent(STAND_IN))
    script.write_text(textwrap.dedent(PARENT))
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder / "service"), also],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(PYTHONPATH=site),
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, psutil.Process(int(line))
    finally:
        for one in [*descendants(process), process]:
            one.kill()
        process.communicate()
