"""Writing a file: whichever operation fails, the old file or the new one is there, whole."""

import errno
import os
import re
from pathlib import Path

import pytest
from support.failing_disk import FailingDisk, Killed

from tfopt_core.errors import InputError
from tfopt_core.files import Disk, pieces_of, replace_file, write_text, write_whole

OLD, NEW = b"the old one", [b"the ", b"new ", b"one"]


class RecordingDisk(Disk):
    """Notes what is carried out, in order."""

    def __init__(self):
        self.operations = []

    def sync(self, file):
        self.operations.append("sync file")
        super().sync(file)

    def replace(self, source, target):
        self.operations.append("rename")
        super().replace(source, target)

    def sync_folder(self, folder):
        self.operations.append("sync folder")
        super().sync_folder(folder)


@pytest.mark.promise(12, injected="each operation on an old or a new file fails, tears or is last")
@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
@pytest.mark.parametrize("torn", [False, True])
def test_whichever_operation_fails_the_file_is_the_old_or_the_new_one(tmp_path, error, torn, new):
    at, completed = 0, False
    while not completed:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "file"
        if not new:
            path.write_bytes(OLD)
        disk = FailingDisk(at, error, torn=torn)
        try:
            write_whole(path, NEW, disk=disk, new=new)
            completed = True
        except type(error):
            pass
        found = path.read_bytes() if path.exists() else None
        assert found in (None if new else OLD, b"".join(NEW))
        # a process that lives removes what it had begun
        left = {entry.name for entry in folder.iterdir()} - {"file"}
        assert new or not left or isinstance(error, Killed)
    assert path.read_bytes() == b"".join(NEW)
    assert at == 8  # create, three pieces, sync, rename, sync of the folder, and none of these
    if new:
        with pytest.raises(FileExistsError):
            write_whole(path, NEW, new=True)


def test_a_new_file_takes_the_place_of_none_that_came_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "file"

    class Late(Disk):
        def sync(self, file):
            path.write_bytes(OLD)  # somebody else is faster

    for links in (True, False):
        if not links:
            monkeypatch.setattr(os, "link", lambda *names: os.stat(tmp_path / "none"))
        with pytest.raises(FileExistsError):
            write_whole(path, NEW, disk=Late(), new=True)
        assert path.read_bytes() == OLD
        assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
        path.unlink()
    write_whole(path, NEW, new=True)  # on a disk without links
    assert path.read_bytes() == b"".join(NEW)


def test_the_data_reach_the_disk_before_the_name_does(tmp_path):
    disk = RecordingDisk()
    write_whole(tmp_path / "file", NEW, disk=disk)
    assert disk.operations == ["sync file", "rename", "sync folder"]


def test_the_file_behind_a_link_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(OLD)
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_whole(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"".join(NEW)


def test_pieces_that_cannot_be_made_leave_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def pieces():
        yield b"the"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_whole(path, pieces())
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == OLD


def test_pieces_of_a_file_are_all_of_it(tmp_path):
    data = os.urandom(2**20 + 3)
    (tmp_path / "file").write_bytes(data)
    assert [len(piece) for piece in pieces_of(tmp_path / "file")] == [2**20, 3]
    assert b"".join(pieces_of(tmp_path / "file")) == data


def test_a_model_that_cannot_be_saved_is_said_to_lie_where_the_run_left_it(tmp_path):
    source = tmp_path / "model.keras"
    source.write_bytes(OLD)
    # a neighbour that an earlier form of the function would have written to
    (tmp_path / ".out.keras.part").mkdir()
    replace_file(source, tmp_path / "out.keras")
    assert (tmp_path / "out.keras").read_bytes() == OLD
    with pytest.raises(InputError, match=f'it is kept as "{source}"'):
        replace_file(source, tmp_path / "nowhere" / "out.keras")


def test_a_file_is_replaced_only_where_that_is_asked_for(tmp_path):
    path = tmp_path / "recipe.toml"
    write_text(path, "a = 1\n")
    with pytest.raises(InputError, match=r'recipe.toml" exists already; name another file'):
        write_text(path, "a = 2\n")
    assert path.read_text() == "a = 1\n"
    write_text(path, "a = 'ü'\n", replace=True)
    assert path.read_text("utf-8") == "a = 'ü'\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    for path, text, said in [
        (tmp_path / "none" / "a.toml", "", "No such file or directory"),
        (tmp_path / "a.toml", "\udcff", "not UTF-8"),
    ]:
        for replace in (False, True):
            with pytest.raises(InputError, match=said):
                write_text(path, text, replace=replace)
    assert not list(tmp_path.iterdir())


# Files of one run or command, in a folder that is removed after it, of /proc, or appended to.
WRITTEN_OTHERWISE = {
    "tfopt_core/commands/output.py", "tfopt_core/commands/scaffold/__init__.py",
    "tfopt_core/files.py",
    "tfopt_core/training/distributed/serving.py", "tfopt_core/training/replay/state.py",
    "tfopt_core/scripts/folders/overlay_mount.py", "tfopt_core/trials/outcomes.py",
    "tfopt_core/workers/child.py", "tfopt_core/workers/fork.py", "tfopt_core/workers/spawn.py",
    "plugins/tfopt_data/kept_rows.py", "plugins/tfopt_data/service_local.py",
}  # fmt: skip


@pytest.mark.promise(12, injected="every source file is searched for what writes files otherwise")
def test_what_is_kept_is_written_whole_by_one_function():
    root = Path(__file__).parents[2]
    writes = re.compile(
        r"\.write_(text|bytes)\(|\bopen\([^)]*\"[wax]b?\+?\"|\.open\(\"[wax]|\.savez?\(file"
    )
    sources = [path for top in ("tfopt_core", "plugins") for path in (root / top).rglob("*.py")]
    found = {
        path.relative_to(root).as_posix()
        for path in sources
        if writes.search(path.read_text(encoding="utf-8"))
    }
    assert found == WRITTEN_OTHERWISE
