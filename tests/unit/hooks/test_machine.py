"""Who is who among the processes of a training, and what a machine is read from."""

import pytest

from tfopt_core.hooks.machine import (
    Gpu,
    parse_gpus,
    read_machine,
    usable_cpus,
    usable_memory_bytes,
    used_memory_bytes,
)
from tfopt_core.plugins import Cluster, ClusterOptions, RuntimeOptions

WORKERS = {"worker": ("a:1", "b:2", "c:3")}
WITH_CHIEF = {"chief": ("a:1",), "worker": ("b:2", "c:3")}
COORDINATED = {"chief": ("a:1",), "worker": ("b:2", "c:3"), "ps": ("d:4",)}


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


def test_gpus_are_read_from_the_drivers_listing():
    assert parse_gpus("Tesla T4, 7.5, 15360, 14000\nNVIDIA H100, 80GB, 9.0, 81559, 81075\n") == (
        Gpu("Tesla T4", (7, 5), 15360 * 2**20, 14000 * 2**20),
        Gpu("NVIDIA H100, 80GB", (9, 0), 81559 * 2**20, 81075 * 2**20),
    )


def test_what_the_driver_does_not_tell_is_not_made_up():
    assert parse_gpus("Odd GPU, [N/A], [N/A], [N/A]\n") == (Gpu("Odd GPU", (0, 0), 0),)


def test_a_cgroups_quota_bounds_the_cpus(tmp_path):
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert usable_cpus(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cpus(tmp_path) >= 1


def test_a_cgroups_limit_bounds_the_memory(tmp_path):
    whole = usable_memory_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("1048576\n")
    assert usable_memory_bytes(tmp_path) == 1048576 < whole
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_memory_bytes(tmp_path) == whole
    (tmp_path / "memory.current").write_text("4096\n")
    assert used_memory_bytes(tmp_path) == 4096


def test_the_page_cache_that_can_be_given_up_is_not_in_use(tmp_path):
    (tmp_path / "memory.current").write_text("4096\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 3000\nactive_file 96\n")
    assert used_memory_bytes(tmp_path) == 1096


def test_the_page_cache_of_version_1_is_not_in_use_either(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.usage_in_bytes").write_text("4096\n")
    (tmp_path / "memory/memory.stat").write_text("inactive_file 5\ntotal_inactive_file 3000\n")
    assert used_memory_bytes(tmp_path) == 1096


def test_this_machine_has_a_cpu_and_memory():
    machine = read_machine()
    assert 1 <= machine.cpu_count <= machine.cpu_count_total
    assert machine.memory_bytes > 2**28
    assert machine.to_dict()["cpu_model"] == machine.cpu_model
