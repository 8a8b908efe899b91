"""The copy: what is copied, what is linked, and what happens to writes through links."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from support.private_run import NOTED, run_privately

from tfopt_core.training.scripts import copied_folder
from tfopt_core.training.scripts.copied_folder import CopiedFolder

LARGE = "large.bin"


@pytest.fixture
def original(tmp_path):
    return fill(tmp_path / "above/project", **{LARGE: "0123456789" * 10, "small": "s"})


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(copied_folder, "FILE_BYTES", 10)
    monkeypatch.setattr(copied_folder, "FICLONE", -1)  # as where no blocks can be shared


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


def run(original, code):
    return run_privately("copy", original, code, FILE_BYTES=10, FICLONE=-1)


def test_small_files_and_python_files_are_copied_and_large_ones_linked(original):
    fill(original, **{"train.py": "#" * 100})
    assert kinds(original) == {"small": "copy", LARGE: "link", "train.py": "copy"}


def test_all_copies_together_have_a_limit(original, monkeypatch):
    monkeypatch.setattr(copied_folder, "ALL_BYTES", 10)
    fill(original / "few", a="12345", b="12345")
    assert sorted(kinds(original).values()) == ["copy", "copy", "folder", "link", "link"]


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
        LARGE: "link", "small": "copy", "env": "link", ".keys": "link", ".git": "folder",
        ".git/index": "copy",
    }  # fmt: skip


def test_past_the_limit_of_entries_folders_are_linked_whole(original, monkeypatch):
    monkeypatch.setattr(copied_folder, "MOST_ENTRIES", 3)
    fill(original / "a/below", file="")
    assert kinds(original) == {LARGE: "link", "small": "copy", "a": "folder", "a/below": "link"}


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


@pytest.mark.parametrize(
    "write",
    [
        f'open("{LARGE}", "a")',
        f'open("{LARGE}", "r+")',
        f'import os; os.truncate("{LARGE}", 3)',
        f'import os; os.chmod("{LARGE}", 0o600)',
        f'from pathlib import Path; Path("{LARGE}").resolve().write_text("new")',
        'open("linked/file", "w")',
        'open("../beside", "a")',
        'import os; os.mkdir("linked/below")',
    ],
)
def test_a_write_through_a_link_is_refused_with_what_to_do(original, write, tmp_path):
    fill(original.parent, beside="b")
    fill(tmp_path / "elsewhere", file="f")
    (original / "linked").symlink_to(tmp_path / "elsewhere")
    found = run(original, NOTED + write)
    assert (
        "set isolate = false in [workload], or have overlay mounts allowed (a test)" in found.error
    )
    assert str(original.parent / "private") not in found.error
    assert found.written == {}
    assert (original / LARGE).read_text() == "0123456789" * 10
    assert (original / LARGE).stat().st_mode & 0o777 != 0o600


def test_a_large_file_that_is_emptied_becomes_one_of_the_copy(original):
    code = f"""
open("{LARGE}", "w").write("new")
open("{LARGE}", "a").write("er")
print(open("{LARGE}").read())
"""
    found = run(original, code)
    assert (found.error, found.printed, found.written) == (None, "newer", {LARGE: "changed"})
    assert (original / LARGE).read_text() == "0123456789" * 10


def test_a_large_file_that_is_renamed_or_removed_stays_where_it_was(original):
    found = run(original, f'import os; os.rename("{LARGE}", "older"); os.remove("older")')
    assert found.written == {LARGE: "removed"}
    assert (original / LARGE).exists()


def test_a_large_file_that_another_program_wrote_is_named(original):
    found = run(original, f'import os; os.system("echo more >> {LARGE}")')
    [note] = found.notes
    assert note.startswith("files of the folder itself were changed, by native code")
    assert note.endswith(f"(a test): {original / LARGE}")


def test_an_absolute_path_into_the_original_is_no_private_one_and_is_noted(original):
    found = run(original, f"open({str(original / 'new')!r}, 'w')")
    assert found.notes[0].endswith(f"not kept apart: {original / 'new'}")
    assert Path(original / "new").exists()
