"""Several processes: their data, their start and who has ended; the private names relied upon."""

import socket
from types import SimpleNamespace

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core.data import DataPlan, Shuffle
from tfopt_core.data.stages import UNKNOWN_COUNT_BUFFER
from tfopt_core.errors import ClusterError, WorkloadError
from tfopt_core.measurement.fingerprint import portable_facts
from tfopt_core.plugins import Cluster, ClusterOptions
from tfopt_core.training.callbacks import callbacks_of
from tfopt_core.training.distributed import serving
from tfopt_core.training.distributed.coordinated import Coordinated, with_known_buffers
from tfopt_core.training.distributed.distribution import Synchronous
from tfopt_core.training.distributed.models import SharedBatch
from tfopt_core.training.distributed.synchronous import fills_last_batch
from tfopt_core.training.messages import ClusterJoining
from tfopt_core.training.strategy import announce
from tfopt_core.trials.run import check_agreement


def at(*addresses, index=0):
    return Cluster(addresses={"worker": addresses}, job="worker", index=index)


@pytest.fixture
def free_port():
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def test_the_parent_is_told_who_is_waited_for_and_how_long(free_port):
    said = []
    cluster = at(f"localhost:{free_port}", "other:1")

    announce(cluster, ClusterOptions(join_seconds=7), said.append)

    [message] = said
    assert message == ClusterJoining(cluster, 7)


@pytest.mark.promise(39, injected="a socket on the worker's port")
def test_a_taken_port_is_named_before_anybody_waits():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = []
        with pytest.raises(ClusterError, match=f"worker 0: the port {port} is taken"):
            announce(at(f"localhost:{port}"), None, said.append)
    assert said == []


@pytest.mark.parametrize("address", ["localhost", "localhost:x"])
def test_an_address_without_a_port_is_none(address):
    with pytest.raises(ClusterError, match='write it as "host:port"'):
        announce(at(address), None, lambda message: None)


def test_every_difference_is_named_with_its_workers():
    facts = {"recipe": "a" * 64, "tensorflow": "2.21.0"}
    check_agreement(at("a:1", "b:2"), [facts, facts])
    other = {"recipe": "b" * 64, "tensorflow": "2.20.0", "keras": "3"}

    with pytest.raises(ClusterError) as raised:
        check_agreement(at("a:1", "b:2", "c:3"), [facts, facts, other])

    text = str(raised.value)
    assert "recipe: aaaaaaaa... on worker 0, bbbbbbbb... on worker 2" in text
    assert "tensorflow: 2.21.0 on worker 0, 2.20.0 on worker 2" in text
    assert "keras: absent on worker 0, 3 on worker 2" in text
    assert "worker 1" not in text


def test_what_machines_may_differ_in_is_not_compared_and_folders_are_relative():
    own = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS",
           "TF_NUM_INTRAOP_THREADS")  # fmt: skip
    facts = {"CPU": "fast", "memory": "8 GiB", "GPUs": "none", '"/home/a/p/train.py"': "h",
             **{f"environment variable {name}": "1" for name in (*own, "XLA_FLAGS")}}  # fmt: skip
    assert portable_facts(facts, "/home/a/p") == {
        '"./train.py"': "h", "environment variable XLA_FLAGS": "1",
    }  # fmt: skip


COORDINATED = Cluster(addresses={"chief": ("127.0.0.1:1",), "ps": ("b:2",)}, job="ps", index=0)


class Poll:
    """Answers as listed, once each time anybody sleeps."""

    def __init__(self, monkeypatch, *answers):
        self.left = list(answers)
        self.slept = 0.0
        monkeypatch.setattr(serving, "answers", lambda address: self.left[0])

    def sleep(self, seconds):
        self.slept += seconds
        if len(self.left) > 1:
            self.left.pop(0)


def test_a_server_waits_for_its_chief_as_long_as_it_is_told(monkeypatch, tmp_path):
    poll = Poll(monkeypatch, False)

    with pytest.raises(ClusterError, match=r"the chief \(127.0.0.1:1\) did not come within 3 s"):
        serving._await_end(COORDINATED, tmp_path / "done", 3, poll.sleep)
    assert poll.slept == pytest.approx(3)


def test_a_chief_that_went_without_a_word_is_named(monkeypatch, tmp_path):
    poll = Poll(monkeypatch, False, True, True, False)

    with pytest.raises(ClusterError, match="is gone before the training has ended"):
        serving._await_end(COORDINATED, tmp_path / "done", 60, poll.sleep)


def test_a_chief_that_misses_a_poll_is_not_gone(monkeypatch, tmp_path):
    poll = Poll(monkeypatch, True, False, True)
    done = tmp_path / "done"

    def sleep(seconds):
        poll.sleep(seconds)
        if poll.slept > 5:
            done.touch()

    serving._await_end(COORDINATED, done, 60, sleep)
    assert poll.slept > 5


@pytest.fixture
def place(monkeypatch, tmp_path):
    """Where the folder of a server lies."""
    found = tmp_path / "of-a-server"
    monkeypatch.setattr(serving, "_folder", lambda cluster: found)
    return found


def test_the_folder_of_a_server_is_its_own_and_new(place):
    assert serving._own_folder(COORDINATED) == place
    (place / "old").touch()
    assert place.stat().st_mode & 0o077 == 0
    assert serving._own_folder(COORDINATED) == place
    assert [path.name for path in place.iterdir()] == [serving.MARKER]
    serving._remove(place)
    assert not place.exists()


@pytest.mark.promise(29, injected="a temporary folder of the expected name without the marker")
def test_a_folder_that_tfopt_has_not_made_is_never_removed(place):
    place.mkdir()
    (place / "thesis.txt").touch()
    with pytest.raises(ClusterError, match="was not made by tfopt; remove it"):
        serving._own_folder(COORDINATED)
    serving._remove(place)
    assert (place / "thesis.txt").exists()


# What the distributed loop needs to know of the data, and the private names that it relies on


def plan(count):
    return DataPlan.from_arrays((np.zeros((count, 2)),))


@pytest.mark.parametrize(
    ("count", "drop", "fills"), [(32, False, True), (33, False, False), (33, True, True)]
)
def test_a_last_batch_is_full_where_the_batches_divide_the_examples(count, drop, fills):
    assert fills_last_batch(plan(count).batch(16, drop_remainder=drop)) is fills


def test_a_last_batch_of_unknown_size_may_be_smaller():
    assert not fills_last_batch(plan(32).filter(lambda x: True).batch(16))


def test_every_shuffle_has_a_size_before_it_is_built_in_a_graph():
    known = with_known_buffers(plan(32).shuffle().batch(4).shuffle(3))

    sizes = [stage.buffer_size for stage in known.stages if isinstance(stage, Shuffle)]
    assert sizes == [32, 3]


def test_a_shuffle_of_unknown_length_gets_the_usual_buffer():
    known = with_known_buffers(plan(32).filter(lambda x: True).shuffle())

    at = known.find(Shuffle)
    assert at is not None
    assert known.stages[at].buffer_size == UNKNOWN_COUNT_BUFFER


@pytest.mark.parametrize("kind", [Synchronous, Coordinated])
def test_a_model_whose_data_are_refused_keeps_its_strategy(kind):
    model, strategy = keras.Sequential(), object()
    model._distribute_strategy = strategy
    distribution = kind(SimpleNamespace(model=model, run=SimpleNamespace(datasets={"train": []})))

    with pytest.raises(WorkloadError, match="no strategy can share out"):
        distribution.install()
    distribution.uninstall()

    assert vars(model)["_distribute_strategy"] is strategy


def test_a_step_with_several_optimizers_weighs_the_gradients_of_each():
    kernels = keras.Variable(1.0), keras.Variable(1.0)
    optimizers = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)
    shared = SharedBatch(SimpleNamespace(optimizer=optimizers[0], other=optimizers[1]))

    shared.install()
    with shared.of_replica(tf.constant(2), tf.constant(0.5)):
        for optimizer, kernel in zip(optimizers, kernels, strict=True):
            optimizer.apply([tf.constant(1.0)], [kernel])
    shared.uninstall()

    assert [float(kernel.numpy()) for kernel in kernels] == pytest.approx([0.95, 0.95])


WORKERS = {"worker": ("a:1", "b:2")}


def test_only_the_chief_has_callbacks_that_write(tmp_path):
    stops = keras.callbacks.EarlyStopping()
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "model.keras"),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        stops,
    ]
    chief, worker = (Cluster(addresses=WORKERS, job="worker", index=i) for i in (0, 1))

    assert callbacks_of(callbacks, None) == callbacks_of(callbacks, chief) == callbacks
    assert callbacks_of(callbacks, worker) == [stops]


def test_a_callback_that_backs_up_from_every_worker_is_refused(tmp_path):
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    chief = Cluster(addresses=WORKERS, job="worker", index=0)

    assert callbacks_of([backup], None) == [backup]
    with pytest.raises(WorkloadError, match="--resume"):
        callbacks_of([backup], chief)


# An error of the training is told from one that the end of another process has caused

TWO = Cluster(addresses={"worker": ("127.0.0.1:1", "127.0.0.1:2")}, job="worker", index=0)


def fail():
    raise tf.errors.UnavailableError(None, None, "Socket closed")


def test_a_worker_whose_listening_socket_closes_last_is_named(monkeypatch):
    answers = iter([True, True, False])
    monkeypatch.setattr(serving, "answers", lambda address: next(answers))
    with (
        pytest.raises(ClusterError, match=r"worker 1 \(127\.0\.0\.1:2\) is gone"),
        serving.ending_together(TWO),
    ):
        fail()


def test_an_error_while_all_answer_stays_what_it_is(monkeypatch):
    monkeypatch.setattr(serving, "answers", lambda address: True)
    monkeypatch.setattr(serving, "DYING_SECONDS", 0.0)
    with pytest.raises(tf.errors.UnavailableError), serving.ending_together(TWO):
        fail()
