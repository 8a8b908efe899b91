"""Who is who among the processes of a training."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfopt_core.plugins import Cluster, ClusterOptions, RuntimeOptions

WORKERS = {"worker": ("a:1", "b:2", "c:3")}
WITH_CHIEF = {"chief": ("a:1",), "worker": ("b:2", "c:3")}
COORDINATED = {"chief": ("a:1",), "worker": ("b:2", "c:3"), "ps": ("d:4",)}


def test_a_cluster_is_what_the_resolver_says():
    spec = SimpleNamespace(as_dict=lambda: {"worker": ["a:1", "b:2"]})
    cluster = Cluster.of(SimpleNamespace(task_type="worker", task_id=1, cluster_spec=lambda: spec))
    assert cluster == Cluster(addresses={"worker": ("a:1", "b:2")}, job="worker", index=1)
    assert (cluster.name, cluster.address) == ("worker 1", "b:2")
    assert cluster.others == {"worker 0": "a:1"}


@pytest.mark.parametrize(
    ("addresses", "job", "index", "rank", "is_chief"),
    [
        (WORKERS, "worker", 0, 0, True),
        (WORKERS, "worker", 2, 2, False),
        (WITH_CHIEF, "chief", 0, 0, True),
        (WITH_CHIEF, "worker", 0, 1, False),
        (COORDINATED, "chief", 0, 0, True),
        (COORDINATED, "worker", 1, 1, False),
    ],
)
def test_ranks_count_those_that_compute_and_one_is_the_chief(addresses, job, index, rank, is_chief):
    cluster = Cluster(addresses=addresses, job=job, index=index)
    assert (cluster.rank, cluster.is_chief) == (rank, is_chief)


def test_a_chief_trains_unless_it_hands_the_steps_out():
    assert Cluster(addresses=WITH_CHIEF, job="chief", index=0).workers == (
        ("chief", 0), ("worker", 0), ("worker", 1),
    )  # fmt: skip
    coordinated = Cluster(addresses=COORDINATED, job="chief", index=0)
    assert coordinated.coordinated
    assert coordinated.workers == (("worker", 0), ("worker", 1))


def test_a_parameter_server_has_no_rank():
    with pytest.raises(ValueError, match="not in tuple"):
        _ = Cluster(addresses=COORDINATED, job="ps", index=0).rank


def test_others_are_named_with_their_addresses():
    cluster = Cluster(addresses=COORDINATED, job="worker", index=0)
    assert cluster.others == {"chief": "a:1", "worker 1": "c:3", "parameter server 0": "d:4"}


def test_a_cluster_has_its_strategy_built_first():
    assert not RuntimeOptions().builds_strategy_first
    assert RuntimeOptions(cluster=ClusterOptions()).builds_strategy_first
    assert RuntimeOptions(strategy_first=True).builds_strategy_first


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"parameter_servers": -1}, {"join_seconds": 0}, {"workers": 1.5}]
)
def test_impossible_numbers_of_processes_are_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        ClusterOptions(**wrong)
