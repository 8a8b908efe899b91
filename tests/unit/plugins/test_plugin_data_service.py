"""The data service, without one: what may be sent to it, and what is refused."""

import contextlib
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import psutil
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import keras, tf
from tfopt_data.data_service import DataService, with_service
from tfopt_data.service_dataset import check_reachable, registered
from tfopt_data.service_local import LocalService

from tfopt_core import DataPlan
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.plugins import Finding, PluginRefused
from tfopt_core.testing import make_machine

PLAN = DataPlan.from_arrays(np.arange(10.0)).batch(4)


def twice(x: Any) -> Any:
    return x * 2


def same(dataset: Any) -> Any:
    return dataset


def sent(plan: DataPlan, divided: bool = False) -> Any:
    """The lowered plan, with a service that hands back what it is given."""
    return lower(with_service(plan, same, divided=divided).plan)


# Where it stands, and what it leaves alone


def test_it_takes_everything_but_the_prefetch() -> None:
    rewrite = with_service(PLAN.prefetch(), same, divided=False)
    assert [s.kind for s in rewrite.plan.stages] == ["source", "batch", "opaque", "prefetch"]
    assert rewrite.done == "after batch: 4"
    assert not rewrite.plan.stages[2].deterministic


def test_cached_examples_are_left_alone() -> None:
    rewrite = with_service(DataPlan.from_arrays(np.arange(4)).cache().batch(2), same, divided=False)
    assert not rewrite.done
    assert "kept in a cache" in rewrite.reason


@pytest.mark.tensorflow
def test_the_number_of_batches_stays_known() -> None:
    assert int(sent(PLAN).cardinality()) == 3
    divided = sent(PLAN, divided=True)
    assert int(divided.cardinality()) == 3
    assert [len(batch) for batch in divided] == [4, 4, 2]


@pytest.mark.tensorflow
def test_examples_that_get_lost_are_noticed() -> None:
    lossy = with_service(PLAN, lambda dataset: dataset.take(2), divided=False).plan
    with pytest.raises(tf.errors.FailedPreconditionError, match="expected to contain"):
        list(lower(lossy))


# What is refused


def test_generator_is_refused() -> None:
    plan = DataPlan.from_generator(lambda: iter([1.0])).batch(2)
    with pytest.raises(PluginRefused, match="a Python generator, which no other process"):
        with_service(plan, same, divided=False)


@pytest.mark.tensorflow
def test_python_in_a_map_is_refused() -> None:
    plan = DataPlan.from_arrays(np.arange(4.0)).map(
        lambda x: tf.py_function(twice, [x], tf.float64)
    )
    with pytest.raises(PluginRefused, match=r"calls Python \(EagerPyFunc"):
        sent(plan)


@pytest.mark.tensorflow
def test_random_number_generators_are_refused_and_stateless_ones_sent() -> None:
    generator = tf.random.Generator.from_seed(1)
    plan = DataPlan.from_arrays(np.arange(4.0))
    with pytest.raises(PluginRefused, match="changes variables"):
        sent(plan.map(lambda x: x + generator.uniform([], dtype=tf.float64)))
    assert sent(plan.map(lambda x: x + tf.random.uniform([], dtype=tf.float64)))


@pytest.mark.tensorflow
def test_what_reshuffles_loses_its_seed_since_a_worker_begins_it_anew_each_epoch() -> None:
    keras.utils.set_random_seed(1)
    plan = DataPlan.from_arrays(np.arange(10)).shuffle().batch(4)
    assert with_service(plan, same, divided=False).plan.stages[1].seed == (0, 0)
    assert sorted(np.concatenate(list(sent(plan).as_numpy_iterator()))) == list(range(10))
    chosen = with_service(plan.take(1), same, divided=False)
    assert "would choose other examples" in chosen.reason
    still = DataPlan.from_arrays(np.arange(10)).shuffle(seed=1, reshuffle=False).batch(4)
    assert with_service(still, same, divided=False).plan.stages[1] is still.stages[1]


@pytest.mark.tensorflow
@pytest.mark.parametrize("seeds", [(1, 2), (0, 0)])
def test_a_seeded_shuffle_within_a_source_is_refused(seeds: tuple[int, int]) -> None:
    shuffled = walk.shuffled(tf.data.Dataset.range(9), 9, seeds, True)
    pairs = DataPlan.from_dataset(tf.data.Dataset.zip(shuffled, tf.data.Dataset.range(9)))
    with (
        pytest.raises(PluginRefused, match="shuffle behind it")
        if any(seeds)
        else contextlib.nullcontext()
    ):
        sent(pairs.batch(3))


@pytest.mark.tensorflow
def test_a_take_is_refused_for_several_workers_only() -> None:
    plan = DataPlan.from_arrays(np.arange(10)).take(3).batch(2)
    assert sent(plan)
    with pytest.raises(PluginRefused, match=r"\(TakeDataset\).*set workers = 1"):
        sent(plan, divided=True)


def test_batches_that_cannot_be_put_together_again_are_refused() -> None:
    plan = DataPlan.from_arrays(np.arange(10))
    dropping = plan.batch(4, drop_remainder=True)
    assert with_service(dropping, same, divided=False).done
    with pytest.raises(PluginRefused, match="would drop one; set workers = 1"):
        with_service(dropping, same, divided=True)


def test_more_than_a_graph_holds_is_refused() -> None:
    huge = np.broadcast_to(np.zeros(1, "uint8"), (2**31,))
    with pytest.raises(PluginRefused, match=r"2 GiB of arrays.*read them from files"):
        with_service(DataPlan.from_arrays(huge), same, divided=False)


def test_one_worker_reads_all_examples_and_several_share_them_out() -> None:
    chosen = [
        DataService(**settings).resolve(None).sharding  # type: ignore[arg-type]
        for settings in ({}, {"workers": 2}, {"address": "grpc://h:1"}, {"sharding": "dynamic"})
    ]
    assert chosen == ["off", "dynamic", "dynamic", "dynamic"]


# No service where one should be


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of somebody who takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_a_port_that_is_taken_is_refused_at_once(listener: int, tmp_path: Path) -> None:
    with pytest.raises(PluginRefused, match=f"port {listener} cannot be had .*in use"):
        LocalService.start(1, listener, tmp_path)


def test_nobody_at_the_address_is_refused(listener: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(PluginRefused, match=r"no data service answers.*connection refused"):
        check_reachable(f"grpc://127.0.0.1:{port}")
    check_reachable(f"grpc://127.0.0.1:{listener}")


@pytest.mark.tensorflow
def test_somebody_else_at_the_address_is_refused_in_time(listener: int) -> None:
    with pytest.raises(PluginRefused, match="no answer within 1 s"):
        registered(tf.data.Dataset.range(3), f"grpc://127.0.0.1:{listener}", limit_seconds=1)


# Its processes


def test_a_process_that_ends_at_its_start_says_its_last_words(tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(PluginRefused, match="ended with status 7; its last words: no such library"):
        LocalService.start(1, 0, tmp_path / "service")


@pytest.mark.thorough
def test_a_process_that_hangs_at_its_start_is_ended(tmp_path, monkeypatch):
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    before = psutil.Process().children()
    with pytest.raises(PluginRefused, match="worker 1 did not start in time"):
        LocalService.start(1, 0, tmp_path / "service", limit_seconds=0.2)
    assert psutil.Process().children() == before


def test_a_worker_that_dies_is_named() -> None:
    causes: queue.Queue[str] = queue.Queue()
    sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    service = LocalService("grpc://localhost:1", (sleeper,))
    threading.Thread(target=service._watch, args=(causes.put,), daemon=True).start()
    assert service.alive == 1
    sleeper.kill()
    assert causes.get(timeout=60) == "worker 1 of 1 was killed by SIGKILL"
    service.stop()


def test_a_service_that_is_stopped_has_no_death_to_tell() -> None:
    causes: queue.Queue[str] = queue.Queue()
    sleeper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    service = LocalService("grpc://localhost:1", (sleeper,))
    watch = threading.Thread(target=service._watch, args=(causes.put,), daemon=True)
    watch.start()
    service.stop()
    service.stop()
    watch.join(60)
    with contextlib.suppress(queue.Empty):
        raise AssertionError(causes.get(timeout=0.1))
    assert service.alive == 0


# Where it may pay

WAITING = diagnosis(
    input_=0.08, dispatch=0.01, compute=0.01, data=0.08, example_bytes=100.0,
    machine=make_machine(cpu_count=16), epochs=3,
    plans={"train": DataPlan.from_arrays(np.arange(10.0)).map(twice, parallel="auto").batch(4)},
)  # fmt: skip


def test_it_is_suggested_where_training_waits_and_cpus_are_left() -> None:
    assert DataService().suggest(WAITING) == {"workers": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": make_machine(cpu_count=2)},
        {"input_seconds": 0.01},
        {"findings": (Finding(kind="sequential-map", detail="slow", split="train"),)},
    ],
)
def test_it_is_not_suggested_elsewhere(changes: dict[str, Any]) -> None:
    assert DataService().suggest(attrs.evolve(WAITING, **changes)) is None
