"""A run that hangs is ended, its stacks are shown, and nothing of it is left."""

from __future__ import annotations

import json

import psutil
import pytest
from support.real_process import tfopt, tfopt_anew, tiny_project

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


def test_a_run_that_hangs_and_ignores_sigterm_is_killed_with_its_stacks_shown(tmp_path):
    project = tiny_project(tmp_path, says=HANGS.strip(), pairs=5)
    # a new process: the stacks of a forked one go down to where it was forked
    done = tfopt_anew(
        "apply", "recipe.toml", "--time-limit", "8s", "--json", "out.json", cwd=project
    )  # fmt: skip
    assert done.code == 0, done.err
    data = json.loads((project / "out.json").read_text())
    [hung] = [run for run in data["runs"] if run["status"] == "failed"]
    assert hung["error"] == "took longer than its limit of 8 s"
    assert "waits_for_what_never_comes" in hung["output_tail"]
    assert hung["wall_seconds"] is None
    assert [run["status"] for run in data["runs"]].count("ok") == 9
    assert not psutil.pid_exists(int((project / "pid").read_text()))
    assert "runs failed" in done.out


def test_a_limit_that_is_no_time_is_an_input_error(tmp_path):
    done = tfopt("apply", "recipe.toml", "--time-limit", "soon", cwd=tiny_project(tmp_path))
    assert done.code == 2
    assert "--time-limit" in done.err
    assert '"10m"' in done.err
