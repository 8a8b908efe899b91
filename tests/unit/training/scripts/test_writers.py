"""Each way to write a file: it is written in the private folder, and the original is not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest

from tfopt_core.training.scripts.mirroring import CopyLimits
from tfopt_core.training.scripts.private_folder import PrivateFolder
from tfopt_core.training.scripts.stand_ins import stand_in_of

LARGE = "large.bin"


@pytest.fixture
def original(tmp_path):
    """A folder in which the large file, and the folder `data`, are shown as links."""
    original = tmp_path / "above/project"
    (original / "data/below").mkdir(parents=True)
    (original / LARGE).write_bytes(b"0123456789" * 10)
    for number in range(5):
        (original / f"data/{number}").write_text("as it was")
    (original / "data/below/file").write_text("as it was")
    return original


@pytest.fixture
def private(tmp_path, original):
    """The private folder, entered; the original must be what it was afterwards."""
    before = contents(original)
    private = PrivateFolder.make(
        original,
        tmp_path / "private",
        limits=CopyLimits(copy_bytes=10, folder_entries=5, beside=50),
    )
    private.enter()
    yield private
    private.leave()
    assert contents(original) == before


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def changes(private):
    return {item.path: item.change for item in private.written()}


def write(path, mode):
    with open(path, mode) as file:
        file.write(b"new" if "b" in mode else "new")


def save_hdf5(path, mode):
    with h5py.File(path, mode) as file:
        file["weights"] = [1.0, 2.0]


def save_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", "{}")


def through_descriptor(path):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, b"new")
    os.close(descriptor)


def through_memory(path):
    mapped = np.memmap(path, dtype=np.uint8, mode="r+")
    mapped[:] = 1
    mapped.flush()


WAYS = {
    "open w": lambda: write(LARGE, "w"),
    "open ab": lambda: write(LARGE, "ab"),
    "open r+b": lambda: write(LARGE, "r+b"),
    "open by bytes": lambda: write(os.fsencode(LARGE), "w"),
    "os.open": lambda: through_descriptor(LARGE),
    "write_text": lambda: Path(LARGE).write_text("new"),
    "os.truncate": lambda: os.truncate(LARGE, 3),
    "os.utime": lambda: os.utime(LARGE, (1, 1)),
    "shutil.copy": lambda: shutil.copy("data/0", LARGE),
    "np.memmap": lambda: through_memory(LARGE),
    "np.ndarray.tofile": lambda: np.zeros(3).tofile(LARGE),
    "zipfile": lambda: save_zip(LARGE),
    "h5py w": lambda: save_hdf5(LARGE, "w"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_large_file_is_written_in_the_private_folder_alone(private, way):
    WAYS[way]()
    assert changes(private) == {LARGE: "changed"}


def test_what_is_appended_follows_what_was_there(private):
    write(LARGE, "ab")
    assert Path(LARGE).read_bytes() == b"0123456789" * 10 + b"new"


def test_a_mode_is_set_on_a_copy(private, original):
    before = (original / LARGE).stat().st_mode
    os.chmod(LARGE, 0o600)
    assert (original / LARGE).stat().st_mode == before
    assert Path(LARGE).stat().st_mode & 0o777 == 0o600


def test_np_save_over_a_large_array_keeps_the_original(tmp_path):
    original = tmp_path / "project"
    original.mkdir()
    np.save(original / "a.npy", np.zeros(1000))
    private = PrivateFolder.make(
        original, tmp_path / "private", limits=CopyLimits(copy_bytes=10, beside=50)
    )
    private.enter()
    np.save("a.npy", np.ones(1000))
    private.leave()
    assert np.load(original / "a.npy").sum() == 0
    assert np.load(private.private / "a.npy").sum() == 1000


def test_a_database_is_changed_in_the_private_folder_alone(tmp_path):
    original = tmp_path / "project"
    original.mkdir()
    with closing(sqlite3.connect(original / "runs.db")) as database:
        database.execute("create table runs (name)")
    before = contents(original)
    private = PrivateFolder.make(
        original, tmp_path / "private", limits=CopyLimits(copy_bytes=10, beside=50)
    )
    private.enter()
    for name in ("runs.db", f"file:{private.private}/runs.db?mode=rw"):
        with closing(sqlite3.connect(name, uri=True)) as database, database:
            database.execute("insert into runs values ('one')")
    private.leave()
    assert contents(original) == before
    with closing(sqlite3.connect(private.private / "runs.db")) as database:
        assert database.execute("select count(*) from runs").fetchone() == (2,)


def test_a_database_opened_for_reading_is_not_copied(private):
    with (
        pytest.raises(sqlite3.DatabaseError),
        closing(sqlite3.connect(f"file:{LARGE}?mode=ro", uri=True)) as database,
    ):
        database.execute("select * from sqlite_master")
    assert stand_in_of(LARGE)


def test_a_large_file_that_is_renamed_or_removed_stays_where_it_was(private):
    os.rename(LARGE, "older.bin")
    assert Path("older.bin").read_bytes().startswith(b"0123")
    os.remove("older.bin")
    assert changes(private) == {LARGE: "removed"}


def test_os_replace_over_a_large_file_puts_the_new_one_there(private):
    Path("writing.tmp").write_text("new")
    os.replace("writing.tmp", LARGE)
    assert Path(LARGE).read_text() == "new"
    assert changes(private) == {LARGE: "changed"}


def test_a_large_file_moved_out_of_the_private_folder_arrives_as_a_file(private, tmp_path):
    shutil.move(LARGE, tmp_path / "elsewhere.bin")
    assert not (tmp_path / "elsewhere.bin").is_symlink()
    assert (tmp_path / "elsewhere.bin").read_bytes().startswith(b"0123")


def test_reading_copies_nothing(private):
    assert Path(LARGE).read_bytes().startswith(b"0123")
    assert Path("data/below/file").read_text() == "as it was"
    assert np.fromfile(LARGE, dtype=np.uint8).size == 100
    shutil.copy(LARGE, "copy.bin")
    assert stand_in_of(LARGE)
    assert stand_in_of("data")


def test_a_file_in_a_linked_folder_is_written_and_its_neighbours_stay_links(private):
    Path("data/below/file").write_text("new")
    assert stand_in_of("data/0")
    assert changes(private) == {"data/below/file": "changed"}


def test_a_folder_made_in_a_linked_one_is_private(private):
    os.makedirs("data/new/deeper")
    Path("data/new/deeper/file").write_text("n")
    assert changes(private) == {"data/new/deeper/file": "new"}


@pytest.mark.parametrize("way", [os.rename, os.link, os.symlink], ids=lambda way: way.__name__)
def test_a_name_given_in_a_linked_folder_is_private(private, way):
    Path("small").write_text("new")
    way("small", "data/new")
    assert changes(private)["data/new"] == "new"


def test_a_second_name_of_a_large_file_is_the_same_file(private):
    os.link(LARGE, "other.bin")
    write("other.bin", "ab")
    assert Path(LARGE).read_bytes().endswith(b"new")


def test_a_linked_folder_can_be_removed_with_all_that_is_in_it(private):
    shutil.rmtree("data")
    assert not Path("data").exists()
    assert changes(private) == {"data/": "removed"}


def test_a_folder_is_removed_though_a_linked_one_is_in_it(tmp_path):
    original = tmp_path / "project"
    for number in range(9):
        (original / f"runs/{number % 3}/code.py/{number}").mkdir(parents=True)
        (original / f"runs/{number % 3}/code.py/{number}/file").write_text("f")
    before = contents(original)
    private = PrivateFolder.make(
        original, tmp_path / "private", limits=CopyLimits(folder_entries=4, beside=50)
    )
    assert stand_in_of(str(private.private / "runs/0/code.py"))
    private.enter()
    shutil.rmtree("runs")
    private.leave()
    assert not (private.private / "runs").exists()
    assert contents(original) == before


def test_a_linked_folder_can_be_worked_in(private):
    os.chdir("data")
    Path("0").write_text("new")
    Path("../beside").write_text("new")
    assert changes(private) == {"data/0": "changed", "beside": "new"}


def test_up_from_a_linked_folder_is_where_it_is_linked(private):
    Path("small").write_text("private")
    assert Path("data/../small").read_text() == "private"


def test_a_walk_finds_what_is_in_linked_folders(private):
    found = {file for _, _, files in os.walk(".") for file in files}
    assert found == {LARGE, "0", "1", "2", "3", "4", "file"}


def test_a_pattern_finds_what_is_in_linked_folders(private):
    assert Path("data/below/file") in set(Path(".").rglob("file"))


def test_a_resolved_path_stays_private(private):
    Path("data/below").resolve().joinpath("file").write_text("new")
    Path(os.path.realpath(LARGE)).write_text("new")
    assert changes(private) == {"data/below/file": "changed", LARGE: "changed"}
    assert private.outside == ()


def test_what_is_written_through_the_users_own_symlink_to_elsewhere_is_private(tmp_path):
    elsewhere, original = tmp_path / "scratch/checkpoints", tmp_path / "above/project"
    elsewhere.mkdir(parents=True)
    original.mkdir(parents=True)
    (elsewhere / "best.h5").write_text("trained for days")
    (original / "checkpoints").symlink_to(elsewhere)
    private = PrivateFolder.make(original, tmp_path / "private")
    private.enter()
    Path("checkpoints/best.h5").write_text("new")
    Path("checkpoints/more.h5").write_text("new")
    private.leave()
    assert (elsewhere / "best.h5").read_text() == "trained for days"
    assert os.listdir(elsewhere) == ["best.h5"]
    assert changes(private) == {
        str(elsewhere / "best.h5"): "changed",
        str(elsewhere / "more.h5"): "new",
    }


def test_a_write_that_cannot_be_made_private_is_refused(private, monkeypatch):
    def no_room(source, copy):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tfopt_core.training.scripts.copy_up.clone", no_room)
    with pytest.raises(OSError, match="No space left on device"):
        write(LARGE, "r+b")


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
def test_hdf5_leaves_a_large_file_of_weights_alone(tmp_path, mode):
    original = tmp_path / "project"
    original.mkdir()
    with h5py.File(original / "big.weights.h5", "w") as file:
        file["layer"] = np.zeros(100)
    before = contents(original)
    private = PrivateFolder.make(
        original, tmp_path / "private", limits=CopyLimits(copy_bytes=10, beside=50)
    )
    private.enter()
    save_hdf5("big.weights.h5", mode)
    with h5py.File("big.weights.h5") as file:
        names = set(file)
    private.leave()
    assert names == ({"weights"} if mode == "w" else {"layer", "weights"})
    assert contents(original) == before
