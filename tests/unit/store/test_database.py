"""The results' file: whole, durable, and never overwritten when something is wrong with it."""

from __future__ import annotations

import sqlite3

import pytest

from tfopt_core.errors import StoreError
from tfopt_core.store.database import Store
from tfopt_core.store.results import Block, EffectResult, FitResult, RunResult

FIT = FitResult(
    one_time_seconds=1.0, blocks=(Block(1, 0.5, 0, "trace"), Block(10, 0.1)), steady=False,
    step_seconds=0.01, examples_per_second=3200.0, trainable_parameters=10, epochs=2, steps=11,
    epochs_to_target=None, seconds_to_target=None, jit_compile=False,
    metrics={"loss": 0.5}, history={"loss": (0.7, 0.5)},
)  # fmt: skip
RUN = RunResult(
    id="m-00", variant="full", round=0, position=1, seed=3, status="ok", wall_seconds=2.5,
    effects={"cache": EffectResult(True, "in memory")}, fits=(FIT,),
)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".tfopt" / "runs.sqlite"


def test_a_run_comes_back_as_it_was(path):
    with Store(path) as store:
        store.begin("m", "2026-01-01", "r", "abc", {})
        store.add_run("m", RUN)
    with Store(path) as store:
        assert store.runs("m") == (RUN,)
        assert store.results("m") is None
        assert store.measurements() == ("m",)


def test_every_commit_reaches_the_disk(path):
    with Store(path) as store:
        assert store._read("PRAGMA journal_mode", ()) == [("wal",)]
        assert store._read("PRAGMA synchronous", ()) == [(2,)]


def test_two_processes_share_a_file(path):
    with Store(path) as one, Store(path) as two:
        one.begin("a", "1", "r", "x", {})
        two.begin("b", "2", "r", "x", {})
        assert one.measurements() == two.measurements() == ("a", "b")


def test_a_newer_schema_is_refused_and_left_alone(path):
    with Store(path) as store:
        store._write("PRAGMA user_version = 99", ())
    before = path.read_bytes()
    with pytest.raises(StoreError, match="written by a newer tfopt") as caught:
        Store(path)
    assert caught.value.exit_code == 70
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"no database at all " * 100, b"SQLite format 3\0" + b"x" * 90])
def test_a_damaged_file_is_named_and_nothing_is_overwritten(path, damage):
    path.parent.mkdir()
    path.write_bytes(damage)
    with pytest.raises(StoreError, match=r'runs\.sqlite" cannot be'):
        Store(path)
    assert path.read_bytes() == damage


def test_a_run_is_stored_once(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "x", {})
        store.add_run("m", RUN)
        with pytest.raises(StoreError, match="UNIQUE"):
            store.add_run("m", RUN)
        assert len(store.runs("m")) == 1


def test_an_unfinished_transaction_leaves_nothing(path):
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO measurement VALUES ('m', '1', 'r', 'x', '{}', NULL)")
    connection.close()  # never committed, as after a crash
    with Store(path) as store:
        assert store.measurements() == ()
