"""A run that hangs is ended, its stacks are shown, and nothing of it is left."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import attrs
import psutil
import pytest
from support.forked_command import runs_forked
from support.real_process import environment, tfopt, tiny_project, wait_until

from tfopt_core.commands.request import make_request
from tfopt_core.statistics.runs import BASELINE
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers import supervise
from tfopt_core.workers.spawn import SpawnRunner
from tfopt_core.workers.supervise import Limits

pytestmark = pytest.mark.slow

# Far from what any run takes on a busy machine: the clock is set, and nobody waits so long.
LIMIT_SECONDS = 600
HANGS = """
        import os, pathlib, signal, time
        with open("calls", "a") as calls:
            calls.write("x")
        if len(pathlib.Path("calls").read_text()) == {call}:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pathlib.Path("pid").write_text(str(os.getpid()))
            def waits_for_what_never_comes():
                time.sleep(6000)
            waits_for_what_never_comes()
"""


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """`hanging(call, pairs)`: a project in which that call of the workload hangs; then the clock
    is beyond the limit, and what waits for its stacks waits until they are there."""

    def stacks():
        return any("waits_for" in file.read_text() for file in tmp_path.rglob("output.txt"))

    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + 2 * LIMIT_SECONDS * (tmp_path / "pid").exists(),
        sleep=lambda seconds: wait_until("the stacks", stacks),
    )
    monkeypatch.setattr(supervise, "time", clock)
    # a process that ignores SIGTERM is waited for in vain
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    yield lambda call, pairs: tiny_project(
        tmp_path, says=HANGS.format(call=call).strip(), pairs=pairs
    )
    sys.modules.pop("tiny", None)


@pytest.mark.promise(6, injected="a run that sleeps and ignores SIGTERM")
def test_a_run_that_hangs_and_ignores_sigterm_is_killed_with_its_stacks_shown(hanging):
    project = hanging(call=1, pairs=4)
    request, _ = make_request("recipe.toml", [], compares=False, keeps=False)
    request = attrs.evolve(request, folder=project / "runs", environment=environment())
    runner = SpawnRunner(limits=Limits(total=LIMIT_SECONDS))
    scheduled = ScheduledRun(0, 0, Variant(BASELINE, ()), seed=3)
    with runs_forked():
        hung = Processes(request, runner).run(scheduled, "run", lambda message: None)
    assert hung.status == "failed"
    assert hung.error == "took longer than its limit of 10 min"
    assert "waits_for_what_never_comes" in Path(hung.output_path).read_text()
    assert "workers/child.py" in hung.output_tail  # the end of that, which is shown
    assert hung.wall_seconds is None
    assert not psutil.pid_exists(int((project / "pid").read_text()))


def test_a_limit_that_is_no_time_is_an_input_error(tmp_path):
    done = tfopt("apply", "recipe.toml", "--time-limit", "soon", cwd=tiny_project(tmp_path))
    assert done.code == 2
    assert "--time-limit" in done.err
    assert '"10m"' in done.err
