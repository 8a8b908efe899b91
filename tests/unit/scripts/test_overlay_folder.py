"""The overlay: what is mounted, what is private in it, what it leaves, and when there is none."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.private_run import run_privately

from tfopt_core.scripts.folders import overlay_mount
from tfopt_core.scripts.folders.private_folder import OverlayMounts, why_no_overlay


@pytest.fixture
def project(tmp_path):
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    (project / "scripts/train.py").write_text("print()")
    return project


def test_an_absolute_path_into_the_folder_is_private(project):
    code = f"""
import os
print(os.getcwd(), os.getuid())
open({str(project / "new")!r}, "w")
"""
    run = run_privately("overlay", project, code)
    assert run.printed == f"{project} {os.getuid()}"
    assert run.written == {"new": "new"}
    assert not (project / "new").exists()


def test_what_tfopt_writes_for_itself_gets_through(project):
    run = run_privately("overlay", project, 'open(".tfopt/model", "w")')
    assert run.written == {}
    assert (project / ".tfopt/model").exists()


def test_a_killed_run_leaves_no_mount_and_what_it_wrote_can_be_removed(project):
    results = project / ".tfopt"
    if (why := why_no_overlay(project, results)) is not None:
        pytest.skip(f"no overlay can be mounted here: {why}")
    mounts = OverlayMounts.of(project, results / "run", results)
    code = "import os; open('new', 'w'); os.mkdir('d'); os.kill(os.getpid(), 9)"
    before = Path("/proc/self/mountinfo").read_text()
    done = subprocess.run([*mounts.command(), sys.executable, "-c", code], cwd=project, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (results / "run/upper-0/new").exists()
    assert Path("/proc/self/mountinfo").read_text() == before
    shutil.rmtree(results / "run")
    assert [path.name for path in project.iterdir() if path.name != ".tfopt"] == ["scripts"]


def test_where_it_cannot_be_mounted_the_reason_is_found_once(project, monkeypatch, tmp_path):
    refusing = tmp_path / "refusing.py"
    refusing.write_text(
        f"import sys; open({str(tmp_path / 'asked')!r}, 'a').write('x'); sys.exit('not permitted')"
    )
    monkeypatch.setattr(overlay_mount, "__file__", str(refusing))
    assert why_no_overlay(project, tmp_path / "results") == "not permitted"
    assert why_no_overlay(project, tmp_path / "results") == "not permitted"
    assert (tmp_path / "asked").read_text() == "x"
    assert list((tmp_path / "results").iterdir()) == []


def test_what_fails_to_mount_says_what_and_why(project, tmp_path, capfd):
    if (why := why_no_overlay(project, tmp_path / "results")) is not None:
        pytest.skip(f"no overlay can be mounted here: {why}")
    command = OverlayMounts(project, (str(project),), "/proc/nowhere", ()).command()
    assert subprocess.run(command, check=False).returncode == 1
    assert capfd.readouterr().err == "No such file or directory: /proc/nowhere\n"
