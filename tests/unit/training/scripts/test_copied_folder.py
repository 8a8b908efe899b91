"""The copy: what is copied, what is linked, and what is too large."""

from __future__ import annotations

import os
import socket

import pytest
from support.private_run import run_privately

from tfopt_core.errors import WorkloadError
from tfopt_core.training.scripts import copied_folder
from tfopt_core.training.scripts.copied_folder import CopiedFolder


@pytest.fixture
def original(tmp_path):
    return fill(tmp_path / "above/project", **{"large.bin": "0123456789" * 10, "small": "s"})


@pytest.fixture(autouse=True)
def no_shared_blocks(monkeypatch):
    monkeypatch.setattr(copied_folder, "FICLONE", -1)


def fill(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def kinds(original):
    """Make the copy; how each entry of the folder is shown in it, by its path."""
    private = CopiedFolder.make(original, original.parent / "private")
    copy = private.path_of(original)
    return {str(place.relative_to(copy)): kind(place) for place in copy.rglob("*")}


def kind(place):
    return "link" if place.is_symlink() else "folder" if place.is_dir() else "copy"


def test_all_files_are_copied_up_to_a_limit(original, monkeypatch):
    assert kinds(original) == {"small": "copy", "large.bin": "copy"}
    monkeypatch.setattr(copied_folder, "MOST_MIB", 0)
    with pytest.raises(WorkloadError, match=r"more than 0 MiB.*set isolate = false") as raised:
        CopiedFolder.make(original, original.parent / "other", "a test")
    assert "no overlay can be mounted over it (a test)" in str(raised.value)


def test_more_entries_than_the_limit_are_not_copied(original, monkeypatch):
    monkeypatch.setattr(copied_folder, "MOST_ENTRIES", 2)
    fill(original / "a/below", file="")
    with pytest.raises(WorkloadError, match="more than 2 files and folders"):
        CopiedFolder.make(original, original.parent / "other")


def test_a_copy_has_the_mode_and_time_of_the_file(original):
    os.chmod(original / "small", 0o750)
    os.utime(original / "small", ns=(5, 7))
    private = CopiedFolder.make(original, original.parent / "private")
    status = private.path_of(original / "small").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o750, 7)


def test_environments_and_hidden_folders_are_linked_whole_and_git_is_not(original):
    fill(original / "env", **{"pyvenv.cfg": ""})
    fill(original / ".keys", key="")
    fill(original / ".git", index="i")
    fill(original / ".tfopt", log="")
    assert kinds(original) == {
        "large.bin": "copy", "small": "copy", "env": "link", ".keys": "link", ".git": "folder",
        ".git/index": "copy",
    }  # fmt: skip


def test_symlinks_stay_and_lead_into_the_copy(original):
    (original / "relative").symlink_to("small")
    (original / "absolute").symlink_to(original / "small")
    (original / "broken").symlink_to("nowhere")
    (original / "circle").symlink_to("circle")
    private = CopiedFolder.make(original, original.parent / "private")
    copy = private.path_of(original)
    for name in ("relative", "absolute"):
        assert (copy / name).resolve() == copy / "small"
    assert [os.readlink(copy / name) for name in ("broken", "circle")] == ["nowhere", "circle"]


def test_what_is_no_file_is_linked(original):
    os.mkfifo(original / "fifo")
    here = os.getcwd()
    os.chdir(original)  # a socket's path may only be short
    socket.socket(socket.AF_UNIX).bind("socket")
    os.chdir(here)
    found = kinds(original)
    assert (found["fifo"], found["socket"]) == ("link", "link")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_linked(original):
    (original / "small").chmod(0)
    fill(original / "closed", a="a").chmod(0)
    found = kinds(original)
    (original / "closed").chmod(0o700)
    assert (found["small"], found["closed"]) == ("link", "link")


def test_the_copy_may_lie_in_the_folder_itself(original):
    private = CopiedFolder.make(original, original / "out/private")
    assert not (private.path_of(original) / "out").exists()


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        CopiedFolder.make(tmp_path / "nowhere", tmp_path / "private")


def test_a_message_names_the_original_files(original, tmp_path):
    private = CopiedFolder.make(original, tmp_path / "private")
    copy = private.path_of(original)
    assert private.in_words(f'File "{copy}/train.py"') == f'File "{original}/train.py"'
    assert private.path_of(tmp_path / "elsewhere") == tmp_path / "elsewhere"


def test_a_script_reached_by_another_name_is_found_in_the_copy(original, tmp_path):
    (tmp_path / "name").symlink_to(original)
    private = CopiedFolder.make(original, tmp_path / "private")
    assert private.path_of(tmp_path / "name/small") == private.path_of(original) / "small"


def test_an_absolute_path_into_the_original_is_no_private_one(original):
    found = run_privately("copy", original, f"open({str(original / 'new')!r}, 'w')")
    assert found.written == {}
    assert (original / "new").exists()
