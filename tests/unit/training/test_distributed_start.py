"""Before several processes train: free addresses, and agreement on what is trained."""

from __future__ import annotations

import socket

import pytest

from tfopt_core.errors import ClusterError
from tfopt_core.measurement.fingerprint import portable_facts
from tfopt_core.plugins import Cluster, ClusterOptions
from tfopt_core.records.messages import ClusterJoining
from tfopt_core.training.distributed import serving
from tfopt_core.training.distributed.cluster import check_agreement
from tfopt_core.training.strategy import announce


def at(*addresses: str, index: int = 0) -> Cluster:
    return Cluster(addresses={"worker": addresses}, job="worker", index=index)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def test_the_parent_is_told_who_is_waited_for_and_how_long(free_port):
    said = []
    cluster = at(f"localhost:{free_port}", "other:1")

    announce(cluster, ClusterOptions(join_seconds=7), said.append)

    [message] = said
    assert message == ClusterJoining(cluster, 7)


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


def test_workers_that_train_the_same_agree():
    check_agreement(at("a:1", "b:2"), [{"recipe": "x"}, {"recipe": "x"}])


def test_every_difference_is_named_with_its_workers():
    facts = {"recipe": "a" * 64, "tensorflow": "2.21.0"}
    other = {"recipe": "b" * 64, "tensorflow": "2.20.0", "keras": "3"}

    with pytest.raises(ClusterError) as raised:
        check_agreement(at("a:1", "b:2", "c:3"), [facts, facts, other])

    text = str(raised.value)
    assert "recipe: aaaaaaaa... on worker 0, bbbbbbbb... on worker 2" in text
    assert "tensorflow: 2.21.0 on worker 0, 2.20.0 on worker 2" in text
    assert "keras: absent on worker 0, 3 on worker 2" in text
    assert "worker 1" not in text


def test_what_machines_may_differ_in_is_not_compared_and_folders_are_relative():
    facts = {"CPU": "fast", "memory": "8 GiB", "GPUs": "none", '"/home/a/p/train.py"': "h"}
    assert portable_facts(facts, "/home/a/p") == {'"./train.py"': "h"}


@pytest.mark.parametrize(
    "name",
    ["CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"],
)
def test_workers_may_have_gpus_and_threads_of_their_own(name):
    assert portable_facts({f"environment variable {name}": "1"}, "/p") == {}


def test_variables_that_change_what_is_computed_are_compared():
    facts = {"environment variable XLA_FLAGS": "x"}
    assert portable_facts(facts, "/p") == facts


COORDINATED = Cluster(addresses={"chief": ("127.0.0.1:1",), "ps": ("b:2",)}, job="ps", index=0)


class Poll:
    """Answers as listed, once each time anybody sleeps."""

    def __init__(self, monkeypatch, *answers: bool) -> None:
        self.left = list(answers)
        self.slept = 0.0
        monkeypatch.setattr(serving, "answers", lambda address: self.left[0])

    def sleep(self, seconds: float) -> None:
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

    def sleep(seconds: float) -> None:
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
