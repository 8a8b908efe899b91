"""Mirroring: what is copied, what is linked, what is left out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tfopt_core.training.scripts.mirroring import CopyLimits, mirror, tree_for
from tfopt_core.training.scripts.stand_ins import stand_in_of

LIMITS = CopyLimits(copy_bytes=10, folder_entries=5, beside=100)


def fill(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def original(tmp_path):
    """A folder with room for others beside it, itself with nothing in it."""
    return fill(tmp_path / "above/project")


@pytest.fixture
def shown(tmp_path, original):
    """Mirrors `original`; where its copy lies."""

    def shown(limits=LIMITS):
        tree = tree_for(original, tmp_path / "tree", limits)
        mirror(tree, limits=limits)
        return Path(tree.place(str(original)))

    return shown


def kind(place):
    if stand_in_of(str(place)):
        return "linked"
    return "kept link" if place.is_symlink() else "folder" if place.is_dir() else "copied"


def kinds(folder):
    return {place.name: kind(place) for place in folder.iterdir()}


def test_small_files_and_python_files_are_copied_and_large_ones_linked(original, shown):
    fill(original, small="1", large="1" * 11)
    (original / "train.py").write_text("#" * 100)
    assert kinds(shown()) == {"small": "copied", "large": "linked", "train.py": "copied"}


def test_a_copy_has_the_mode_and_time_of_the_file(original, shown):
    fill(original, run="1")
    os.chmod(original / "run", 0o750)
    os.utime(original / "run", ns=(5, 7))
    status = (shown() / "run").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o750, 7)


def test_a_link_reads_as_the_file_that_it_stands_for(original, shown):
    fill(original, large="large enough to link")
    assert (shown() / "large").read_text() == "large enough to link"


def test_runs_of_tfopt_and_compiled_files_are_left_out(original, shown):
    fill(original / ".tfopt/runs", log="")
    fill(original / "package/__pycache__", module="")
    place = shown()
    assert kinds(place) == {"package": "folder"}
    assert kinds(place / "package") == {}


def test_environments_packages_of_node_and_hidden_folders_are_linked_whole(original, shown):
    fill(original / "env", **{"pyvenv.cfg": ""})
    fill(original / "node_modules", a="")
    fill(original / ".keys", key="")
    assert set(kinds(shown()).values()) == {"linked"}


def test_the_index_of_git_is_a_copy_and_its_objects_are_linked(original, shown):
    fill(original / ".git/objects/00", a="")
    fill(original / ".git", index="i", HEAD="h")
    assert kinds(shown() / ".git") == {"index": "copied", "HEAD": "copied", "objects": "linked"}


def test_a_folder_with_very_many_entries_below_is_linked_whole(original, shown):
    fill(original / "data/a", **{str(number): "" for number in range(5)})
    fill(original / "few", a="", b="")
    assert kinds(shown()) == {"data": "linked", "few": "folder"}


def test_a_large_folder_of_code_is_real_and_only_the_data_in_it_are_linked(original, shown):
    fill(original / "src", **{"model.py": ""})
    fill(original / "src/data", **{str(number): "" for number in range(9)})
    assert kinds(shown() / "src") == {"model.py": "copied", "data": "linked"}


def test_past_the_limit_of_entries_all_but_python_files_are_linked(original, shown):
    fill(original, a="", b="", **{"c.py": "", "d": ""})
    fill(original / "folder", a="")
    found = kinds(shown(CopyLimits(entries=0)))
    assert found.pop("c.py") == "copied"
    assert set(found.values()) == {"linked"}


def test_past_the_limit_of_bytes_files_are_linked(original, shown):
    fill(original, a="12345", b="12345", c="12345")
    assert sorted(kinds(shown(CopyLimits(copied_bytes=10))).values()) == [
        "copied",
        "copied",
        "linked",
    ]


def test_symlinks_stay_and_lead_to_what_is_shown(original, shown):
    fill(original / "runs/1", weights="w")
    (original / "relative").symlink_to("runs/1")
    (original / "absolute").symlink_to(original / "runs/1")
    place = shown()
    for name in ("relative", "absolute"):
        assert kind(place / name) == "kept link"
        assert (place / name).resolve() == place / "runs/1"


def test_what_lies_beside_the_folder_is_found_by_a_path_upwards(original, shown):
    fill(original.parent / "data", train="t")
    assert (shown() / "../data/train").read_text() == "t"


def test_a_symlink_into_a_folder_too_full_to_be_shown_still_leads_there(original, shown):
    beside = fill(original.parent / "data", train="t")
    (original / "data").symlink_to(beside)
    place = shown(CopyLimits(beside=0))
    assert not (place / "../data").exists()
    assert (place / "data/train").read_text() == "t"


def test_broken_and_circular_links_and_sockets_are_taken_along(original, shown):
    (original / "broken").symlink_to("nowhere")
    (original / "circle").symlink_to("circle")
    (original / "upwards").symlink_to(".")
    os.mkfifo(original / "fifo")
    # a socket's path may only be short
    here = os.getcwd()
    os.chdir(original)
    socket.socket(socket.AF_UNIX).bind("socket")
    os.chdir(here)
    assert set(kinds(shown())) == {"broken", "circle", "upwards", "fifo", "socket"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_no_error(original, shown):
    fill(original / "closed", a="a").chmod(0)
    fill(original, secret="s")
    (original / "secret").chmod(0)
    found = kinds(shown())
    (original / "closed").chmod(0o700)
    assert found == {"closed": "linked", "secret": "linked"}


def test_the_tree_may_lie_in_the_folder_itself(original, shown, tmp_path):
    tree = tree_for(original, original / "out/tree", LIMITS)
    fill(original / "out", a="")
    mirror(tree, limits=LIMITS)
    assert kinds(Path(tree.place(str(original)))) == {"out": "folder"}
    assert kinds(Path(tree.place(str(original / "out")))) == {"a": "copied"}


def test_a_folder_that_is_not_there_is_an_error(original, shown):
    original.rmdir()
    with pytest.raises(FileNotFoundError):
        shown()
