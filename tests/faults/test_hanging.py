"""A run that hangs is ended, its stacks are shown, and nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import psutil
import pytest
from support.real_process import tfopt, tiny_project

from tfopt_core.cli.main import run
from tfopt_core.measurement import busy
from tfopt_core.statistics import disturbance
from tfopt_core.workers import supervise
from tfopt_core.workers.spawn import SpawnRunner

pytestmark = pytest.mark.slow

HANGS = """
        import os, pathlib, signal, time
        with open("calls", "a") as calls:
            calls.write("x")
        if len(pathlib.Path("calls").read_text()) == 5:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pathlib.Path("pid").write_text(str(os.getpid()))
            def waits_for_what_never_comes():
                time.sleep(600)
            waits_for_what_never_comes()
"""


@pytest.fixture
def here(forked_runs, monkeypatch):
    """The command in this process, where it waits for less long; its runs are forks as ever."""
    monkeypatch.setattr(
        "tfopt_core.app.apply._runner",
        lambda request, limits: contextlib.nullcontext(
            forked_runs.with_spawn(SpawnRunner(limits=limits))
        ),
    )
    # a process that ignores SIGTERM is waited for in vain
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.5)
    # other tests use the CPUs too, and no round is measured again for them
    monkeypatch.setattr(disturbance, "FOREIGN", ())
    monkeypatch.setattr(busy.watch_idle, "__defaults__", (0.0, Path("/")))
    yield lambda *arguments: run(arguments)
    sys.modules.pop("tiny", None)


def test_a_run_that_hangs_and_ignores_sigterm_is_killed_with_its_stacks_shown(
    here, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tiny_project(tmp_path, says=HANGS.strip(), pairs=5))
    code = here("apply", "recipe.toml", "--time-limit", "8s", "--json", "out.json")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    data = json.loads((tmp_path / "out.json").read_text())
    [hung] = [run for run in data["runs"] if run["status"] == "failed"]
    assert hung["error"] == "took longer than its limit of 8 s"
    assert "waits_for_what_never_comes" in hung["output_tail"]
    assert hung["wall_seconds"] is None
    assert [run["status"] for run in data["runs"]].count("ok") == 9
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert "runs failed" in printed.out


def test_a_limit_that_is_no_time_is_an_input_error(tmp_path):
    done = tfopt("apply", "recipe.toml", "--time-limit", "soon", cwd=tiny_project(tmp_path))
    assert done.code == 2
    assert "--time-limit" in done.err
    assert '"10m"' in done.err
