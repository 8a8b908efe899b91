"""What a machine is read from, with files and listings of the test's own."""

from __future__ import annotations

from tfopt_core.hooks.machine import (
    Gpu,
    parse_gpus,
    read_machine,
    usable_cpus,
    usable_memory_bytes,
    used_memory_bytes,
)


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
