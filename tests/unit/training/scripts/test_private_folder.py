"""The private folder: where a script works, what it is told, what it has written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tfopt_core.training.scripts.mirroring import CopyLimits
from tfopt_core.training.scripts.private_folder import PrivateFolder
from tfopt_core.training.scripts.written import WrittenFiles


@pytest.fixture
def original(tmp_path):
    original = tmp_path / "above/project"
    (original / "runs").mkdir(parents=True)
    (original / "train.py").write_text("print()")
    (original / "runs/last").write_text("1")
    for number in range(20):
        (original / f"large-{number}").write_text("a large file")
    return original


@pytest.fixture
def private(tmp_path, original):
    private = PrivateFolder.make(
        original,
        tmp_path / "private",
        limits=CopyLimits(copy_bytes=5, beside=50),
        unnoted=("/dev",),
    )
    yield private
    private.leave()


def test_a_script_starts_in_it_and_ends_where_it_came_from(private):
    before = os.getcwd(), os.environ.get("PWD")
    private.enter()
    assert os.getcwd() == os.environ["PWD"] == str(private.private)
    private.leave()
    assert (os.getcwd(), os.environ.get("PWD")) == before


def test_a_script_may_start_in_a_folder_below(private, original):
    private.enter(at=original / "runs")
    assert os.getcwd() == str(private.private / "runs")


def test_a_folder_to_start_in_that_is_not_there_is_an_error(private, original):
    before = os.getcwd()
    with pytest.raises(FileNotFoundError):
        private.enter(at=original / "nowhere")
    assert os.getcwd() == before
    private.enter()


def test_only_one_can_be_entered_at_a_time(private, original, tmp_path):
    second = PrivateFolder.make(original, tmp_path / "second")
    private.enter()
    with pytest.raises(RuntimeError, match="entered already"):
        second.enter()
    Path("still watched").touch()
    open(original / "noted", "w").close()
    assert private.outside == (str(original / "noted"),)


def test_a_file_of_the_original_is_found_in_it(private, original):
    assert private.path_of(original / "train.py") == private.private / "train.py"
    assert private.path_of(Path("runs/last")) == private.private / "runs/last"
    assert private.path_of(original) == private.private


def test_a_file_elsewhere_is_itself(private, tmp_path):
    assert private.path_of(tmp_path / "data.csv") == tmp_path / "data.csv"


def test_a_file_is_found_by_another_name_of_the_original(tmp_path, original):
    (tmp_path / "name").symlink_to(original)
    private = PrivateFolder.make(tmp_path / "name", tmp_path / "private")
    assert private.path_of(tmp_path / "name/train.py") == private.private / "train.py"
    assert private.path_of(original / "train.py") == private.private / "train.py"


def test_a_message_names_the_original_files(private, original, tmp_path):
    beside = original.parent / "data"
    message = f'File "{private.private}/train.py" reads {private.private.parent}/data.'
    assert private.in_words(message) == f'File "{original}/train.py" reads {beside}.'
    other = f"{tmp_path}/private/files-of-another/x"
    assert private.in_words(other) == other


def test_all_changes_are_listed_once_sorted_and_nothing_else(private):
    private.enter()
    Path("new").write_text("12")
    Path("runs/last").write_text("2")
    Path("large-3").write_text("3")
    os.remove("large-4")
    Path("large-5").open("r+").close()
    Path("../beside").write_text("b")
    private.leave()
    beside = str(private.original.parent / "beside")
    assert private.written() == (
        WrittenFiles(beside, 1, "new"),
        WrittenFiles("large-3", 1, "changed"),
        WrittenFiles("large-4", 0, "removed"),
        WrittenFiles("new", 2, "new"),
        WrittenFiles("runs/last", 1, "changed"),
    )


def test_a_run_that_wrote_nothing_lists_nothing(private):
    private.enter()
    assert [path.read_text() for path in Path().glob("large-*")] == ["a large file"] * 20
    private.leave()
    assert private.written() == ()


def test_a_second_run_finds_what_the_first_one_found(private, original, tmp_path):
    private.enter()
    Path("runs/last").write_text("2")
    Path("large-3").write_text("trained")
    private.leave()
    second = PrivateFolder.make(
        original, tmp_path / "second", limits=CopyLimits(copy_bytes=5, beside=50)
    )
    second.enter()
    found = Path("runs/last").read_text(), Path("large-3").read_text()
    second.leave()
    assert found == ("1", "a large file")


def test_writes_outside_are_noted_once_in_their_order(private, original, tmp_path):
    private.enter()
    for path in (original / "b", tmp_path / "a", original / "b"):
        path.write_text("outside")
    os.mkdir(tmp_path / "folder")
    os.chdir(tmp_path)
    Path("relative").write_text("outside")
    os.remove("relative")
    Path("/dev/null").write_text("nobody's")
    (tmp_path / "a").read_text()
    private.leave()
    names = [original / "b", tmp_path / "a", tmp_path / "folder", tmp_path / "relative"]
    assert private.outside == tuple(map(str, names))


def test_at_most_fifty_writes_outside_are_noted(private, tmp_path):
    private.enter()
    for number in range(60):
        (tmp_path / str(number)).touch()
    assert len(private.outside) == 50


def test_temporary_files_are_not_noted_but_the_original_is_wherever_it_lies(original, tmp_path):
    private = PrivateFolder.make(original, tmp_path / "private", unnoted=(str(tmp_path),))
    private.enter()
    (tmp_path / "temporary").touch()
    (original / "noted").touch()
    private.leave()
    assert private.outside == (str(original / "noted"),)


def test_what_tfopt_writes_for_itself_is_not_noted(private, original):
    (original / ".tfopt").mkdir()
    private.enter()
    (original / ".tfopt/report").touch()
    assert private.outside == ()


def test_nothing_is_noted_or_copied_once_it_is_left(private, original):
    private.enter()
    private.leave()
    (original / "noted").touch()
    (private.private / "large-0").write_text("through the link")
    assert private.outside == ()
    assert (original / "large-0").read_text() == "through the link"


def test_an_original_that_was_written_past_python_is_named(private, original):
    private.enter()
    subprocess.run(["sh", "-c", "echo more >> large-7"], check=True)
    private.leave()
    assert private.changed_originals() == (str(original / "large-7"),)


def test_forked_processes_write_privately_too(private, original):
    private.enter()
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            with open("large-0", "a") as file:
                file.write(str(number))
            with open(f"from-{number}", "w") as file:
                file.write(os.getcwd())
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    private.leave()
    assert statuses == [0] * 4
    assert (original / "large-0").read_text() == "a large file"
    text = (private.private / "large-0").read_text()
    assert sorted(text.removeprefix("a large file")) == ["0", "1", "2", "3"]
    assert [item.change for item in private.written()] == ["new"] * 4 + ["changed"]


def test_threads_write_privately_and_lose_nothing(private, original):
    private.enter()
    ready = threading.Barrier(8)

    def work(number):
        ready.wait()
        for name in range(20):
            with open(f"large-{name}", "a") as file:
                file.write(str(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    private.leave()
    for name in range(20):
        assert (original / f"large-{name}").read_text() == "a large file"
        text = (private.private / f"large-{name}").read_text()
        assert sorted(text.removeprefix("a large file")) == list("01234567")


SCRIPT = """
import sys
from pathlib import Path
from tfopt_core.training.scripts.private_folder import PrivateFolder

private = PrivateFolder.make(Path(sys.argv[1]), Path(sys.argv[2]))
private.enter()
assert not {"tensorflow", "keras", "h5py"} & set(sys.modules)
import h5py
with h5py.File("big.weights.h5", "w") as file:
    file["layer"] = [1.0]
print([item.change for item in private.written()])
"""


def test_hdf5_that_is_imported_later_is_private_too(tmp_path):
    original = tmp_path / "project"
    original.mkdir()
    (original / "big.weights.h5").write_bytes(bytes(2 << 20))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, original, tmp_path / "private"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['changed']\n"
    assert (original / "big.weights.h5").read_bytes() == bytes(2 << 20)
