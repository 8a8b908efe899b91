"""The results' file: each of its operations in turn fails, tears or is the last of its process."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.real_process import TIME_LIMIT_SECONDS, environment
from support.store_at_fault import BUG, DONE, REFUSED, RUNS

from tfopt_core.store.database import Store, store_path

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
    done = subprocess.run(
        [sys.executable, "-P", SUPPORT / "store_at_fault.py", folder, kind],
        env=environment(LD_PRELOAD=library), capture_output=True, text=True, check=False,
        timeout=TIME_LIMIT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    known = {run.id: run for run in RUNS}
    for run in runs:
        assert run == known[run.id]
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
