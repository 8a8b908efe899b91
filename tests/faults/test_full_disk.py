"""A disk that is full where results and files go: an error, and whole data before it."""

import errno
import os
import sqlite3
import subprocess
from pathlib import Path

import attrs
import pytest
from support.own_mounts import fill, mount_small, with_own_mounts
from support.real_process import TFOPT, environment
from support.stored_measurements import FIRST_RESULTS, SECOND, SECOND_RESULTS, keep

from tfopt_core.errors import StoreError
from tfopt_core.store.database import Store, store_path

FULL = os.strerror(errno.ENOSPC)
KIB = 1024
# Room for the tables of the results' file and for something more.
SIZES = (132 * KIB, 164 * KIB, 260 * KIB)


def stored_until_full(folder: Path, size: int) -> tuple[list[str], list[str], str, str]:
    """Store runs on a small disk until it is full.

    :returns: the runs that were stored, those that can be read, what was said, and what SQLite
        says of the file.
    """
    disk = mount_small(folder, size)
    path = store_path(disk)
    stored: list[str] = []
    said = ""
    with Store(path) as store:
        store.begin("m", "1", "r", "x", {"filler": "x" * 2000})
        run = FIRST_RESULTS.runs[0]
        try:
            for number in range(10_000):
                one = attrs.evolve(run, id=f"m-{number:05d}", round=number, output_tail="y" * 500)
                store.add_run("m", one)
                stored.append(one.id)
        except StoreError as error:
            said = str(error)
        # a reader, while the disk is still full
        with Store.existing(path) as reader:
            readable = [one.id for one in reader.runs("m")]
    with sqlite3.connect(path) as connection:
        [(integrity,)] = connection.execute("PRAGMA integrity_check").fetchall()
    return stored, readable, said, integrity


@pytest.mark.promise(9, injected="small disks of three sizes that the results' file fills")
@pytest.mark.parametrize("size", SIZES)
def test_every_run_that_was_stored_before_the_disk_was_full_can_be_read(tmp_path, size):
    stored, readable, said, integrity = with_own_mounts(stored_until_full, tmp_path / "d", size)
    assert len(stored) > 3
    assert readable == stored
    assert 'runs.sqlite" cannot be written: ' in said
    assert "full" in said
    assert said.endswith("nothing in it was overwritten")
    assert integrity == "ok"


# The command, and what its error names.
COMMANDS = {
    "json": (["report", "last", "--project", "PROJECT", "--json", "out.json"], '"out.json"'),
    "html": (["report", "last", "--project", "PROJECT", "--html", "out.html"], '"out.html"'),
    "markdown": (["report", "last", "--project", "PROJECT", "--markdown", "out.md"], '"out.md"'),
    "schema": (["schema", "--output", "schema.json"], '"schema.json"'),
    "recipe": (["recipes", "copy", "quickstart"], '"quickstart.toml"'),
    "scaffold": (["plugins", "new", "my-plugin"], '"tfopt-my-plugin"'),
    "results": (["apply", "quickstart"], '/.tfopt"'),
}


def command_on_a_full_disk(folder: Path, project: Path, words: list[str]):
    """The outcome of a command on a full disk, and what it left there."""
    disk = mount_small(folder, 64 * KIB)
    fill(disk)
    done = anew(*(str(project) if w == "PROJECT" else w for w in words), cwd=disk)
    return (done.returncode, done.stderr), sorted(path.name for path in disk.rglob("*"))


def anew(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: a fork of this one, whose threads are gone, must not
    compute."""
    return subprocess.run(
        [TFOPT, *words], cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
@pytest.mark.promise(9, injected="a full disk under each file that a command writes")
@pytest.mark.parametrize(("words", "named"), COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_the_disk_has_no_room_for_is_named_and_nothing_torn_is_left(
    words, named, tmp_path
):
    project = tmp_path / "project"
    with Store(store_path(project)) as store:
        for results in (FIRST_RESULTS, SECOND_RESULTS):
            keep(store, results)
    (code, err), left = with_own_mounts(command_on_a_full_disk, tmp_path / "disk", project, words)
    assert code in (2, 3), err
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert named in line
    assert FULL in line
    assert "Traceback" not in err
    assert set(left) - {"filler", ".tfopt"} == set()


@pytest.mark.promise(9, injected="/dev/full as standard output")
def test_output_that_cannot_be_written_is_an_error_of_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [TFOPT, "recipes"], stdout=full, stderr=subprocess.PIPE, env=environment(), text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    said = "a file or standard output cannot be written"
    assert done.stderr == f"error: {said}: {FULL}; make room there\n"


def report_over_an_old_file(folder: Path, project: Path) -> tuple[int, str]:
    disk = mount_small(folder, 64 * KIB)
    (disk / "out.json").write_text("the old one")
    fill(disk)
    done = anew("report", SECOND, "--project", str(project), "--json", "out.json", cwd=disk)
    return done.returncode, (disk / "out.json").read_text()


@pytest.mark.promise(12, injected="a full disk while a report replaces an older one")
def test_a_report_that_cannot_be_replaced_stays_the_old_one(tmp_path):
    with Store(store_path(tmp_path)) as store:
        keep(store, SECOND_RESULTS)
    code, text = with_own_mounts(report_over_an_old_file, tmp_path / "disk", tmp_path)
    assert (code, text) == (2, "the old one")
