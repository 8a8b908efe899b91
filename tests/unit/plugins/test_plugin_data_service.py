"""The data service, without one: what may be sent to it, and what is refused."""

import contextlib
import queue
import socket
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest
from support.lazy_modules import keras, tf
from tfopt_data.data_service import DataService, with_service
from tfopt_data.service_dataset import check_reachable, registered
from tfopt_data.service_local import LocalService

from tfopt_core import DataPlan
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused

PLAN = DataPlan.from_arrays(np.arange(10.0)).batch(4)


def twice(x):
    return x * 2


def same(dataset):
    return dataset


def sent(plan, divided=False):
    """The lowered plan, with a service that hands back what it is given."""
    return lower(with_service(plan, same, divided=divided).plan)


# Where it stands, and what it leaves alone


def test_it_takes_everything_but_the_prefetch():
    rewrite = with_service(PLAN.prefetch(), same, divided=False)
    assert [s.kind for s in rewrite.plan.stages] == ["source", "batch", "opaque", "prefetch"]
    assert rewrite.done == "after batch: 4"
    assert not rewrite.plan.stages[2].deterministic


def test_cached_examples_are_left_alone():
    rewrite = with_service(DataPlan.from_arrays(np.arange(4)).cache().batch(2), same, divided=False)
    assert not rewrite.done
    assert "kept in a cache" in rewrite.reason


def test_the_number_of_batches_stays_known():
    assert int(sent(PLAN).cardinality()) == 3
    divided = sent(PLAN, divided=True)
    assert int(divided.cardinality()) == 3
    assert [len(batch) for batch in divided] == [4, 4, 2]


def test_examples_that_get_lost_are_noticed():
    lossy = with_service(PLAN, lambda dataset: dataset.take(2), divided=False).plan
    with pytest.raises(tf.errors.FailedPreconditionError, match="expected to contain"):
        list(lower(lossy))


# What is refused


def ten():
    return DataPlan.from_arrays(np.arange(10.0))


def in_python():
    return ten().map(lambda x: tf.py_function(twice, [x], tf.float64))


def drawn_from_a_generator():
    generator = tf.random.Generator.from_seed(1)
    return ten().map(lambda x: x + generator.uniform([], dtype=tf.float64))


def drawn_without_a_state():
    return ten().map(lambda x: x + tf.random.uniform([], dtype=tf.float64))


def zipped(*seeds):
    """A zip of which one part is shuffled by these seeds."""
    shuffled = walk.shuffled(tf.data.Dataset.range(9), 9, seeds, True)
    return DataPlan.from_dataset(tf.data.Dataset.zip(shuffled, tf.data.Dataset.range(9))).batch(3)


@pytest.mark.parametrize(
    ("plan", "divided", "said"),
    [
        (lambda: DataPlan.from_generator(lambda: iter([1.0])).batch(2), False,
         "a Python generator, which no other process"),
        (in_python, False, r"calls Python \(EagerPyFunc"),
        (drawn_from_a_generator, False, "changes variables"),
        (drawn_without_a_state, False, ""),
        (lambda: zipped(1, 2), False, "shuffle behind it"),
        (lambda: zipped(0, 0), False, ""),
        (lambda: ten().take(3).batch(2), True, r"\(TakeDataset\).*set workers = 1"),
        (lambda: ten().take(3).batch(2), False, ""),
        (lambda: ten().batch(4, drop_remainder=True), True, "would drop one; set workers = 1"),
        (lambda: ten().batch(4, drop_remainder=True), False, ""),
        (lambda: DataPlan.from_arrays(np.broadcast_to(np.zeros(1, "uint8"), (2**31,))), False,
         r"2 GiB of arrays.*read them from files"),
    ],
)  # fmt: skip
def test_what_a_service_would_read_otherwise_is_refused_and_the_rest_is_sent(plan, divided, said):
    with pytest.raises(PluginRefused, match=said) if said else contextlib.nullcontext():
        assert sent(plan(), divided=divided)


def test_what_reshuffles_loses_its_seed_since_a_worker_begins_it_anew_each_epoch():

    keras.utils.set_random_seed(1)
    plan = DataPlan.from_arrays(np.arange(10)).shuffle().batch(4)
    assert with_service(plan, same, divided=False).plan.stages[1].seed == (0, 0)
    assert sorted(np.concatenate(list(sent(plan).as_numpy_iterator()))) == list(range(10))
    chosen = with_service(plan.take(1), same, divided=False)
    assert "would choose other examples" in chosen.reason
    still = DataPlan.from_arrays(np.arange(10)).shuffle(seed=1, reshuffle=False).batch(4)
    assert with_service(still, same, divided=False).plan.stages[1] is still.stages[1]


def test_one_worker_reads_all_examples_and_several_share_them_out():
    chosen = [
        DataService(**settings).resolve(None).sharding
        for settings in ({}, {"workers": 2}, {"address": "grpc://h:1"}, {"sharding": "dynamic"})
    ]
    assert chosen == ["off", "dynamic", "dynamic", "dynamic"]


# No service where one should be


@pytest.fixture
def listener():
    """The port of somebody who takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_a_port_that_is_taken_is_refused_at_once(listener, tmp_path):
    with pytest.raises(PluginRefused, match=f"port {listener} cannot be had .*in use"):
        LocalService.start(1, listener, tmp_path)


def test_nobody_at_the_address_is_refused(listener):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(PluginRefused, match=r"no data service answers.*connection refused"):
        check_reachable(f"grpc://127.0.0.1:{port}")
    check_reachable(f"grpc://127.0.0.1:{listener}")


def test_somebody_else_at_the_address_is_refused_in_time(listener):
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


def test_a_worker_that_dies_is_named():
    causes = queue.Queue()
    sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    service = LocalService("grpc://localhost:1", (sleeper,))
    threading.Thread(target=service._watch, args=(causes.put,), daemon=True).start()
    assert service.alive == 1
    sleeper.kill()
    assert causes.get(timeout=60) == "worker 1 of 1 was killed by SIGKILL"
    service.stop()


def test_a_service_that_is_stopped_has_no_death_to_tell():
    causes = queue.Queue()
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
