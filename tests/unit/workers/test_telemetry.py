"""Counters of the machine: the kernel's kills, what else ran, and the line that says so."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.measure_runs import make_run

from tfopt_core.workers.telemetry import disturbance, oom_kills, read_counters, seen_in_words

START = {
    "seconds": 100.0, "cpus": 2, "total": 200.0, "busy": 50.0, "steal": 1.0, "swapped_pages": 40,
}  # fmt: skip


def test_swapped_pages_are_those_in_and_out(tmp_path):
    (tmp_path / "vmstat").write_text("pgfault 9\npswpin 3\npswpout 4\npswpin x\n")
    assert read_counters(tmp_path / "vmstat")["swapped_pages"] == 7


def test_a_system_that_tells_nothing_has_nothing_but_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [])
    counters = read_counters(tmp_path / "vmstat")
    assert counters.keys() == {"seconds"}
    assert disturbance(counters, counters, 1.0) == {}


@few_examples(60)
@given(st.binary(max_size=200), st.lists(st.binary(max_size=200), min_size=2, max_size=2))
def test_whatever_the_files_hold_nothing_raises(vmstat, groups):
    with TemporaryDirectory() as folder:
        names = ("proc/self/cgroup", "sys/fs/cgroup/memory.events")
        for name, content in zip(("vmstat", *names), (vmstat, *groups), strict=True):
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        assert read_counters(Path(folder, "vmstat"))["seconds"] > 0
        assert oom_kills(Path(folder)) >= 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_machine_tells_its_cpu_time():
    before, after = read_counters(), read_counters()
    assert before["cpus"] >= 1
    assert 0 < before["busy"] <= before["total"]
    assert after["seconds"] >= before["seconds"]


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
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill many\n"}, 0),
    ],
    ids=["nothing", "version 2", "version 1", "container", "no number"],
)
def test_the_kernel_s_kills_are_those_of_our_own_group(tmp_path, files, kills):
    assert oom_kills(tree_of(tmp_path, files)) == kills


def ten_seconds_later(busy=0.0, steal=0.0, **changes):
    """Ten seconds of two CPUs, in which these amounts were added."""
    later = {"seconds": 110.0, "total": 220.0, "busy": 50.0 + busy, "steal": 1.0 + steal}
    return {**START, **later, **changes}


def beside(*figures):
    return [
        attrs.evolve(make_run("full", round_, 10.0), disturbance=each)
        for round_, each in enumerate(figures)
    ]


def test_a_quiet_run_has_all_figures_and_no_line():
    figures = disturbance(START, ten_seconds_later(busy=12.0), 11.5)
    assert figures["other_cpu_share"] == pytest.approx(0.025)
    assert figures["steal_share"] == figures["swapped_pages"] == 0
    assert seen_in_words(beside(figures)) is None
    assert seen_in_words([]) is None


def test_one_line_names_steal_and_other_processes_at_their_worst():
    stolen = disturbance(START, ten_seconds_later(steal=2.4), 0.0)
    shared = disturbance(START, ten_seconds_later(busy=9.0), 2.0)
    assert seen_in_words(beside(stolen, {}, shared, {"steal_share": 0.05})) == (
        "beside the runs: steal of up to 12% of CPU time, other processes on up to 35% of the CPUs"
    )


def test_without_the_own_cpu_time_nothing_is_said_of_others():
    assert "other_cpu_share" not in disturbance(START, ten_seconds_later(busy=19.0), None)


def test_an_interval_too_short_for_ticks_has_counts_but_no_shares():
    later = ten_seconds_later(steal=2.0, swapped_pages=41, seconds=100.1)
    assert disturbance(START, later, 0.0) == {"swapped_pages": 1.0}


def test_counters_that_fell_are_absent():
    later = ten_seconds_later(steal=-0.5, swapped_pages=0)
    assert not {"steal_share", "swapped_pages"} & disturbance(START, later, 0.0).keys()


@given(st.floats(0, 100), st.floats(0, 100), st.floats(-10, 1e9))
def test_shares_lie_between_nothing_and_all(busy, steal, own):
    figures = disturbance(START, ten_seconds_later(busy=busy, steal=steal), own)
    assert all(0 <= share <= 1 for name, share in figures.items() if name.endswith("share"))
