"""A disk that is full or fails where results and files go: an error, and whole data before it."""

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from support.own_mounts import fill, mount_small, with_own_mounts
from support.real_process import TFOPT, environment, run, tfopt_anew
from support.store_at_fault import BUG, DONE, REFUSED, RUNS
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
    done = tfopt_anew(*(str(project) if w == "PROJECT" else w for w in words), cwd=disk)
    return (done.code, done.err), sorted(path.name for path in disk.rglob("*"))


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
    done = tfopt_anew("report", SECOND, "--project", project, "--json", "out.json", cwd=disk)
    return done.code, (disk / "out.json").read_text()


@pytest.mark.promise(12, injected="a full disk while a report replaces an older one")
def test_a_report_that_cannot_be_replaced_stays_the_old_one(tmp_path):
    with Store(store_path(tmp_path)) as store:
        keep(store, SECOND_RESULTS)
    code, text = with_own_mounts(report_over_an_old_file, tmp_path / "disk", tmp_path)
    assert (code, text) == (2, "the old one")


# Each of the operations on the results' file in turn fails, tears or is the last of its process

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library that stands between SQLite and the disk, or a skip with the reason."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("it needs a C compiler and Linux")
    path = tmp_path_factory.mktemp("library") / "nth_operation.so"
    source = SUPPORT / "nth_operation.c"
    command = [compiler, "-shared", "-fPIC", "-o", path, source, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"it cannot be compiled: {done.stderr.strip().splitlines()[-1]}")
    return path


def attempts(library, folder, kind):
    program = [sys.executable, "-P", SUPPORT / "store_at_fault.py", folder, kind]
    done = run(program, cwd=folder, env=environment(LD_PRELOAD=library))
    assert done.code == 0, done.err
    assert "Traceback" not in done.err, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def check_what_is_stored(project, reported):
    """What the store said was stored is there, at most one step more, and all of it is whole."""
    path = store_path(project)
    if not path.is_file():
        assert not reported
        return
    with Store.existing(path) as reader:
        runs = reader.runs("m")
        finished = reader.results("m") is not None
    stored = ["begun"] * bool(begun_in(path)) + [run.id for run in runs]
    stored += ["finished"] * finished
    assert stored[: len(reported)] == reported
    assert len(stored) <= len(reported) + 1
    known = {one.id: one for one in RUNS}
    for one in runs:
        assert one == known[one.id]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def begun_in(path):
    with Store.existing(path) as reader:
        return reader.measurements()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["fail", "full", "tear", "kill"])
@pytest.mark.promise(49, injected="each operation of SQLite fails, is half done, or is the last")
def test_what_was_stored_survives_whichever_operation_goes_wrong(library, tmp_path, kind):
    found = attempts(library, tmp_path, kind)
    assert len(found) > 20
    killed = -signal.SIGKILL
    # only a write can be half done: any other operation fails
    allowed = {"tear": {DONE, REFUSED, killed}, "kill": {DONE, killed}}.get(kind, {DONE, REFUSED})
    for one in found:
        assert one["status"] != BUG
        assert one["status"] in allowed, one
        steps = ("error: ", "not reached")
        reported = [line for line in one["lines"] if not line.startswith(steps)]
        check_what_is_stored(tmp_path / str(one["number"]), reported)
        if one["status"] == REFUSED:
            [error] = [line for line in one["lines"] if line.startswith("error: ")]
            assert error.endswith("nothing in it was overwritten")
        # and whoever comes next stores into the same file
        with Store(store_path(tmp_path / str(one["number"]))) as store:
            store.begin("next", "2", "r", "x", {})
            assert "next" in store.measurements()
    statuses = {one["status"] for one in found}
    assert statuses >= ({killed} if kind in ("tear", "kill") else {REFUSED})
    print(f"\n{kind}: {len(found) - 1} operations, statuses {sorted(statuses)}")
