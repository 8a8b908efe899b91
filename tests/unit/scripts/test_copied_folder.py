"""The two kinds of a private folder: a copy, and mounts of overlays."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.private_run import run_privately

from tfopt_core.errors import InputError
from tfopt_core.scripts.folders import copied_folder, overlay_mount
from tfopt_core.scripts.folders.copied_folder import CopiedFolder
from tfopt_core.scripts.folders.private_folder import OverlayMounts, why_no_overlay


@pytest.fixture
def original(tmp_path):
    return fill(tmp_path / "above/project", small="s")


def fill(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def copy_of(original):
    return CopiedFolder.make(original, original.parent / "private", "a test")


def kinds(original):
    """Make the copy; how each entry of the folder is shown in it, by its path."""
    copy = copy_of(original).path_of(original)
    return {str(place.relative_to(copy)): kind(place) for place in copy.rglob("*")}


def kind(place):
    return "link" if place.is_symlink() else "folder" if place.is_dir() else "copy"


def test_what_is_larger_than_the_limit_is_refused_with_what_to_do(original, monkeypatch):
    monkeypatch.setattr(copied_folder, "LIMIT_BYTES", 1 << 20)
    assert kinds(original) == {"small": "copy"}
    with (original / "data.bin").open("wb") as file:
        file.truncate(1 << 20)
    said = f'a copy of "{original}", and that is more than 1 MiB; isolate = false in [workload]'
    with pytest.raises(InputError, match=re.escape(said)):
        CopiedFolder.make(original, original.parent / "other", "a test")


def test_each_entry_counts_towards_the_limit(original, monkeypatch):
    monkeypatch.setattr(copied_folder, "LIMIT_BYTES", 4 * copied_folder.ENTRY_BYTES)
    fill(original, a="", b="", c="")
    copy_of(original)
    fill(original, d="")
    with pytest.raises(InputError, match="or have overlay mounts allowed"):
        CopiedFolder.make(original, original.parent / "other", "a test")


def test_a_copy_has_the_mode_and_time_of_the_file(original):
    os.chmod(original / "small", 0o750)
    os.utime(original / "small", ns=(5, 7))
    status = copy_of(original).path_of(original / "small").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o750, 7)


def test_environments_and_caches_are_linked_whole(original, monkeypatch):
    fill(original / "env", **{"pyvenv.cfg": ""})
    fill(original / "cache", large="")
    fill(original / ".hidden", log="")
    fill(original / ".tfopt", log="")
    monkeypatch.setenv("XDG_CACHE_HOME", str(original / "cache"))
    assert kinds(original) == {
        "small": "copy", "env": "link", "cache": "link", ".hidden": "folder", ".hidden/log": "copy",
    }  # fmt: skip


def test_symlinks_stay_and_lead_into_the_copy(original):
    (original / "relative").symlink_to("small")
    (original / "absolute").symlink_to(original / "small")
    (original / "broken").symlink_to("nowhere")
    (original / "circle").symlink_to("circle")
    private = copy_of(original)
    copy = private.path_of(original)
    for name in ("relative", "absolute"):
        assert (copy / name).resolve() == copy / "small"
    assert [os.readlink(copy / name) for name in ("broken", "circle")] == ["nowhere", "circle"]
    assert private.written() == ()


def test_what_is_no_file_is_linked(original):
    os.mkfifo(original / "fifo")
    here = os.getcwd()
    os.chdir(original)  # a socket's path may only be short
    socket.socket(socket.AF_UNIX).bind("socket")
    os.chdir(here)
    private = copy_of(original)
    found = {name: kind(private.path_of(original) / name) for name in ("fifo", "socket")}
    assert found == {"fifo": "link", "socket": "link"}
    assert private.written() == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_linked(original):
    (original / "small").chmod(0)
    fill(original / "closed", a="a").chmod(0)
    found = kinds(original)
    (original / "closed").chmod(0o700)
    assert (found["small"], found["closed"]) == ("link", "link")


def test_the_copy_may_lie_in_the_folder_itself(original):
    private = CopiedFolder.make(original, original / "out/private", "a test")
    assert os.listdir(private.path_of(original) / "out") == []
    assert private.written() == ()


def test_a_copy_that_cannot_be_made_says_why(original, tmp_path):
    fill(tmp_path, file="")
    with pytest.raises(InputError, match=r"cannot be copied .*: Not a directory"):
        CopiedFolder.make(original, tmp_path / "file/private", "a test")


def test_a_message_names_the_original_files(original, tmp_path):
    private = copy_of(original)
    copy = private.path_of(original)
    assert private.in_words(f'File "{copy}/train.py"') == f'File "{original}/train.py"'
    assert private.path_of(tmp_path / "elsewhere") == tmp_path / "elsewhere"


def test_a_script_reached_by_another_name_is_found_in_the_copy(original, tmp_path):
    (tmp_path / "name").symlink_to(original)
    private = copy_of(original)
    assert private.path_of(tmp_path / "name/small") == private.path_of(original) / "small"


# The overlay: what is mounted, what is private in it, what it leaves, and when there is none


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
