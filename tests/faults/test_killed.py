"""Processes that die, hang, fork or lie: what is kept, what is said, and that nothing is left."""

import contextlib
import json
import os
import pty
import signal
import threading
from pathlib import Path

import psutil
import pytest
from support.real_process import (
    TIME_LIMIT_SECONDS,
    alive,
    descendants,
    environment,
    make_distribution,
    started,
    stored_runs,
    tfopt,
    tiny_project,
    wait_until,
)

pytestmark = pytest.mark.slow

# The first run of the second pair starts a sleeper and hangs. Before it the workload is built
# for the dry build, twice for the certificate, and for the first pair.
HANGS_IN_THE_SECOND_PAIR = """
        import pathlib, subprocess, time
        with open("calls", "a") as calls:
            calls.write("x")
        if len(pathlib.Path("calls").read_text()) == 6:
            subprocess.Popen(["sleep", "600"])
            pathlib.Path("hangs").touch()
            time.sleep(600)
"""


def hanging_project(folder: Path) -> Path:
    return tiny_project(folder, says=HANGS_IN_THE_SECOND_PAIR.strip())


def processes_once_it_hangs(process, project: Path) -> list[psutil.Process]:
    """Wait until the workload hangs, then find its process, and what that has started."""

    def there():
        if process.poll() is not None:
            raise AssertionError((project / "stderr.txt").read_text())
        return (project / "hangs").exists()

    wait_until("the workload to hang", there)
    return descendants(process)


@pytest.mark.promise(1, injected="SIGKILL of tfopt while a run hangs")
@pytest.mark.parametrize(
    "anew", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["forked", "anew"]
)
def test_after_kill_9_of_tfopt_no_process_is_left_and_finished_runs_are_kept(tmp_path, anew):
    project = hanging_project(tmp_path)
    with started("apply", "recipe.toml", cwd=project, anew=anew) as process:
        processes_once_it_hangs(process, project)
        # the fork server, what keeps the run, the run, its sleeper; one less of a forked command
        count = 4 if anew else 3
        wait_until("the end of the others", lambda: len(descendants(process)) == count)
        children = descendants(process)
        process.kill()
        process.wait()
        # 2 s are the promise; on a busy machine they may begin late
        wait_until("the children's death", lambda: not alive(children))
    kept = stored_runs(project)
    assert [run["status"] for run in kept] == ["ok", "ok"]
    assert all(run["wall_seconds"] > 0 for run in kept)

    # the pair that was under way is made again, nothing else
    done = tfopt("apply", "recipe.toml", "--resume", "--json", "out.json", cwd=project)
    assert done.code == 0, done.err
    data = json.loads((project / "out.json").read_text())
    assert data["runs"][:2] == kept
    assert [run["status"] for run in data["runs"]].count("ok") == 8
    assert data["resumed"] == 1
    assert len((project / "calls").read_text()) == 6 + len(data["runs"]) - 2


@contextlib.contextmanager
def terminal():
    """A pseudo-terminal: the end of the program, that of the user, and what was shown on it."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(ours, 4096):
                shown.append(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield theirs, ours, shown
    finally:
        os.close(theirs)
        reader.join(TIME_LIMIT_SECONDS)
        os.close(ours)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A project whose measurement Ctrl-C has ended, what the terminal showed, and who still runs
    after the limit."""
    project = hanging_project(tmp_path_factory.mktemp("interrupted"))
    with (
        terminal() as (theirs, ours, shown),
        started(
            "apply", "recipe.toml", "--json", "-", cwd=project, env=environment(TERM="xterm"),
            terminal=theirs,
        ) as process,
    ):  # fmt: skip
        children = processes_once_it_hangs(process, project)
        os.write(ours, b"\x03")
        assert process.wait(TIME_LIMIT_SECONDS) == 130
        wait_until("the children's death", lambda: not alive(children))
    return project, b"".join(shown).decode(), alive(children)


@pytest.mark.promise(7, injected="Ctrl-C at a pseudo-terminal")
def test_ctrl_c_at_a_terminal_keeps_what_is_done_and_leaves_no_process(interrupted):
    project, printed, still_there = interrupted
    assert still_there == []
    data = json.loads((project / "stdout.txt").read_text())
    assert data["interrupted"] is True
    assert [run["status"] for run in data["runs"] if run["wall_seconds"]] == ["ok", "ok"]
    assert data["comparison"]["verdict"] == "none"
    assert "interrupted: what had been measured until then is kept" in printed
    assert "2 runs in" in printed
    assert "Traceback" not in printed
    assert stored_runs(project) == data["runs"]


@pytest.mark.promise(15, injected="a byte more in the factory's file")
def test_resuming_after_an_edit_is_refused_and_says_what_was_edited(interrupted):
    project, _, _ = interrupted
    code = project / "tiny.py"
    before = code.read_text()
    code.write_text(before + "#")
    done = tfopt("apply", "recipe.toml", "--resume", cwd=project)
    code.write_text(before)
    assert done.code == 2
    assert "cannot be resumed" in done.err
    assert f'"{code}" changed' in done.err


@pytest.mark.thorough
@pytest.mark.promise(7, injected="SIGINT twice")
def test_ctrl_c_twice_ends_it_at_once(tmp_path):
    project = hanging_project(tmp_path)
    with started("apply", "recipe.toml", cwd=project) as process:
        children = processes_once_it_hangs(process, project)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIME_LIMIT_SECONDS) == 130
        wait_until("the children's death", lambda: not alive(children))
    assert "Traceback" not in (project / "stderr.txt").read_text()
    assert [run["status"] for run in stored_runs(project)] == ["ok", "ok"]


@pytest.mark.promise(7, injected="SIGINT before the first run")
def test_ctrl_c_in_the_dry_build_ends_with_130_and_leaves_no_process(tmp_path):
    says = 'import pathlib, time; pathlib.Path("hangs").touch(); time.sleep(600)'
    project = tiny_project(tmp_path, says=says)
    with started("apply", "recipe.toml", cwd=project) as process:
        children = processes_once_it_hangs(process, project)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIME_LIMIT_SECONDS) == 130
        wait_until("the children's death", lambda: not alive(children))
    assert (project / "stderr.txt").read_text().rstrip().endswith("interrupted")


DIES = """
    import os, pathlib, signal
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl

    @attrs.frozen(kw_only=True, eq=False)
    class Dies(Plugin):
        '''Ends its process: by SIGKILL in the replay and the first pair, each beside another
        process and then alone, by abort() later.'''

        equivalence = "exact"

        @hookimpl
        def on_epoch_end(self, epoch):
            with open("died", "a") as died:
                died.write("x")
            if len(pathlib.Path("died").read_text()) > 4:
                os.abort()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
@pytest.mark.promise(2, injected="a run sends itself SIGKILL")
@pytest.mark.promise(5, injected="os.abort() in a run")
def test_a_variant_that_dies_is_named_with_its_signal_and_keeps_no_timing(tmp_path):
    site = make_distribution(
        tmp_path / "site", "deadly", {"dies": "deadly_module:Dies"}, deadly_module=DIES
    )
    project = tiny_project(tmp_path / "project", plugin="dies", pairs=8)
    done = tfopt("apply", "recipe.toml", "--json", "out.json", cwd=project, site=site)
    assert done.code == 3, done.err
    data = json.loads((project / "out.json").read_text())
    baseline = [run for run in data["runs"] if run["variant"] == "baseline"]
    # the others go on
    assert [run["status"] for run in baseline] == ["ok", "ok"]
    killed, aborted = (run for run in data["runs"] if run["variant"] == "full")
    assert killed["error"].startswith("killed by SIGKILL")
    assert aborted["error"] == "killed by SIGABRT"
    for run in (killed, aborted):
        assert run["status"] == "failed"
        assert run["wall_seconds"] is None
        assert run["peak_rss_bytes"] is None
        assert run["fits"] == []
    assert "Fatal Python error: Aborted" in Path(aborted["output_path"]).read_text()
    assert "deadly_module.py" in aborted["output_tail"]
    assert data["comparison"]["verdict"] == "none"
    assert data["comparison"]["speedup"] is None
    flowing = " ".join(done.out.split())
    assert "killed by SIGKILL" in flowing
    assert "killed by SIGABRT" in flowing
    assert "2 of 4 runs failed" in flowing
    assert [run["status"] for run in stored_runs(project)].count("ok") == 2


# Says on every channel it can find that it trained 777 epochs, and leaves two processes behind: one
# in its own session, and one in another.
LIES = """
        import json, os, time
        fit = dict(one_time_seconds=0, blocks=[], step_seconds=1e-9, steps=777,
                   examples_per_second=1e9, trainable_parameters=777, epochs=777,
                   epochs_to_target=None, seconds_to_target=None, jit_compile=False,
                   metrics={"loss": 0.0}, history={"loss": [0.0]})
        forged = json.dumps({
            "type": "RunReport", "wall_seconds": 1e-9, "peak_rss_bytes": 1, "fits": [fit],
            "effects": {"prefetch": {"applied": True, "detail": "FORGED"}},
        }).encode() + b"\\n"
        for descriptor in (1, 2, *range(3, 21)):
            try:
                os.write(descriptor, forged)
            except OSError:
                pass
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        import subprocess
        daemon = subprocess.Popen(["sleep", "606"], start_new_session=True)
        with open("sleepers", "a") as sleepers:
            sleepers.write(f"{pid} {daemon.pid} ")
"""


@pytest.fixture(scope="module")
def lied(tmp_path_factory):
    project = tiny_project(tmp_path_factory.mktemp("lies"), says=LIES.strip())
    return project, tfopt("train", "recipe.toml", cwd=project)


@pytest.mark.promise(17, injected="a forged result on every descriptor that is open")
def test_a_forged_result_is_not_taken_for_one(lied):
    project, done = lied
    assert (project / "sleepers").exists(), done.err
    said = [line for line in done.out.splitlines() if not line.startswith('{"type"')]
    assert not any("777" in line or "FORGED" in line for line in said)
    assert done.code == 0, done.err
    assert any(line.startswith("trained 2 epochs in ") for line in said)


@pytest.mark.promise(8, injected="a forked child, and a grandchild that called setsid")
def test_what_a_workload_forked_is_gone_after_the_run(lied):
    project, done = lied
    pids = [int(pid) for pid in (project / "sleepers").read_text().split()]
    assert len(pids) == 4  # of the dry build and of the training

    def gone(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            return not alive([psutil.Process(pid)])
        return True

    wait_until("the sleepers' death", lambda: all(map(gone, pids)))
    said = " ".join(done.out.split())
    assert 'left processes in sessions of their own, which were ended: "sleep 606"' in said
