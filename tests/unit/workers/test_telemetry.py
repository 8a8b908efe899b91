"""Counters from fabricated trees: what is there is read, what is not is absent, nothing raises."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples

from tfopt_core.statistics.disturbance import disturbance
from tfopt_core.workers.telemetry import (
    oom_kills,
    own_groups,
    parse_cpu_ticks,
    parse_swapped_pages,
    read_counters,
)

STAT = (
    "cpu  400 2 60 500 10 0 6 22 7 0\n"
    "cpu0 300 1 40 100 5 0 4 20 7 0\n"
    "cpu1 100 1 20 400 5 0 2 2 0 0\n"
    "intr 1 2 3\n"
)
FILES = ("proc/stat", "proc/vmstat", "proc/self/cgroup")


def write(root, **files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_ticks_are_summed_over_the_cpus_that_may_be_used():
    assert parse_cpu_ticks(STAT, None) == {"total": 1000, "busy": 468, "steal": 22, "cpus": 2}
    assert parse_cpu_ticks(STAT, frozenset({1})) == {
        "total": 530, "busy": 123, "steal": 2, "cpus": 1,
    }  # fmt: skip


def test_a_container_that_numbers_its_cpus_from_zero_is_summed_whole():
    assert parse_cpu_ticks(STAT, frozenset({6, 7}))["cpus"] == 2


@pytest.mark.parametrize("text", ["", "cpu  1 2 3", "cpu0 1 2 3", "cpu0 a b c d e f g h", "cpu0"])
def test_malformed_ticks_are_absent(text):
    assert parse_cpu_ticks(text, None) == {}


def test_swapped_pages_are_those_in_and_out():
    assert parse_swapped_pages("pgfault 9\npswpin 3\npswpout 4\n") == 7
    assert parse_swapped_pages("pgfault 9\n") is None


def test_the_own_group_comes_with_its_ancestors():
    mount = Path("/m")
    assert own_groups("0::/user/run\n", mount) == (
        Path("/m/user/run"), Path("/m/user"), Path("/m"),
    )  # fmt: skip
    assert own_groups("4:cpu,cpuacct:/job\n9:memory:/other\n", mount) == (
        Path("/m/cpu/job"), Path("/m/cpu"),
    )  # fmt: skip
    assert own_groups("0::/../../outside\n", mount) == (mount, mount / "cpu")


def test_a_whole_tree_is_read(tmp_path):
    write(tmp_path, **{"proc/stat": STAT, "proc/vmstat": "pswpin 3\npswpout 4\n"})
    counters = read_counters(tmp_path)
    assert counters.cpu_seconds.keys() == {"total", "busy", "steal"}
    assert counters.swapped_pages == 7


def test_an_empty_tree_has_nothing_but_the_time(tmp_path):
    counters = read_counters(tmp_path)
    assert counters.seconds > 0
    assert not counters.cpu_seconds
    assert disturbance(counters, counters, 1.0) == {}


@few_examples(60)
@given(st.lists(st.binary(max_size=200), min_size=6, max_size=6), st.floats() | st.none())
def test_whatever_the_files_hold_nothing_raises(contents, own_cpu_seconds):
    with TemporaryDirectory() as folder:
        readings = []
        for part in (contents[:3], contents[3:]):
            for name, content in zip(FILES, part, strict=True):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            readings.append(read_counters(Path(folder)))
    before, after = readings
    found = disturbance(before, after, own_cpu_seconds)
    assert all(0 <= found.get(name, 0) <= 1 for name in ("steal_share", "other_cpu_share"))


number = st.integers(-10, 10**25).map(str) | st.sampled_from(["", "x", "9" * 5000, "²"])


@given(st.lists(number, max_size=12), st.lists(number, max_size=4))
def test_numbers_of_any_size_are_read_or_absent(ticks, totals):
    parse_cpu_ticks(f"cpu0 {' '.join(ticks)}", None)
    for total in totals:
        parse_swapped_pages(f"pswpin {total}\npswpout {total}")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_machine_tells_its_cpu_time():
    before, after = read_counters(), read_counters()
    assert before.cpus >= 1
    assert 0 < before.cpu_seconds["busy"] <= before.cpu_seconds["total"]
    assert after.seconds >= before.seconds


def tree_of(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.promise(3, injected="files of control groups, version 1 and 2")
@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, 0),
        (
            {
                "proc/self/cgroup": "0::/user/shell\n",
                "sys/fs/cgroup/user/shell/memory.events": "low 0\nmax 7\noom 1\noom_kill 3\n",
                "sys/fs/cgroup/user/memory.events": "oom_kill 99\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/box\n1:cpu:/\n0::/\n",
                "sys/fs/cgroup/memory/box/memory.oom_control": "under_oom 0\noom_kill 2\n",
            },
            2,
        ),
        (
            # a container's own group is mounted at the top
            {
                "proc/self/cgroup": "0::/outside/of/it\n",
                "sys/fs/cgroup/memory.events": "oom_kill 5\n",
            },
            5,
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.events": "oom_kill many\n",
            },
            0,
        ),
    ],
    ids=["nothing", "version 2", "version 1", "container", "no number"],
)
def test_the_kernel_s_kills_are_those_of_our_own_group(tmp_path, files, kills):
    assert oom_kills(tree_of(tmp_path, files)) == kills
