"""What a log of searches keeps, what another search takes from it, and a damaged file."""

import sqlite3

import attrs
import pytest
from support.simulated_search import plugin

from tfopt_core.errors import InputError, StoreError
from tfopt_core.tuning.results import BoundStep, StackTrial, TrialOutcome
from tfopt_core.tuning.search_log import LOG_FILE, SearchLog, key_of, newest_stopped, read_searches

FACTS = {"CPU": "one"}


def trial(name, outcome=TrialOutcome.NO_GAIN):
    return StackTrial(
        action="add", plugin=name, stack=(plugin(name, size=8),), without=(), outcome=outcome,
        reason="why", seconds=2.0,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path):
    made = SearchLog.open(tmp_path / "a", "train.py", FACTS)
    for name in ("cache", "xla"):
        made.add(key_of(trial(name)), trial(name))
    return made


def test_what_was_written_is_read_back_as_it_was(log, tmp_path):
    look = BoundStep(stack=("cache",), sentence="it", shares={"input": 0.5})
    log.write("look", "here", look, 3.0)
    log.write("settings", seconds=5.0)
    [record] = read_searches(tmp_path)
    assert (record.target, record.facts, record.ended) == ("train.py", FACTS, False)
    assert record.seconds == 2 * 2.0 + 3.0 + 5.0
    resumed = SearchLog.open(tmp_path / "a", "train.py", FACTS)
    assert resumed.own.seconds == record.seconds
    assert resumed.kept(key_of(trial("xla"))) == trial("xla")
    assert resumed.kept(key_of(trial("prefetch"))) is None
    assert resumed.found("look", "here", BoundStep) == (look, "")
    assert resumed.found("look", "there", BoundStep) is None
    resumed.add(key_of(trial("xla")), trial("xla"))  # it has that already
    resumed.write("end")
    [record] = read_searches(tmp_path)
    assert (record.resumed, record.ended) == (1, True)
    assert record.seconds == 12.0


def test_the_newest_search_comes_first_and_is_resumed_where_its_facts_are_the_same(log, tmp_path):
    SearchLog.open(tmp_path / "b", "train.py", FACTS)
    searches = read_searches(tmp_path)
    assert [one.id for one in searches] == ["b", "a"]
    assert newest_stopped(searches, "train.py", FACTS).id == "b"
    with pytest.raises(InputError, match="CPU was one, is two"):
        newest_stopped(searches, "train.py", {"CPU": "two"})
    with pytest.raises(InputError, match=r'no search of "other\.py" was stopped'):
        newest_stopped(searches, "other.py", FACTS)


@pytest.mark.promise(41, injected="a file that is no log of searches, or one with other entries")
@pytest.mark.promise(41, injected="the file of earlier searches is overwritten")
@pytest.mark.parametrize("damage", ["file", "entry"])
def test_a_damaged_log_is_named_and_not_written(damage, log, tmp_path):
    path = tmp_path / LOG_FILE
    if damage == "file":
        path.write_bytes(b"no database at all, " * 400)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE entry SET data = '{' WHERE kind = 'trial'")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r'searches.sqlite" is damaged .*; move it away'):
        read_searches(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.promise(51, injected="the disk has no room for an entry, by SQLite's page limit")
def test_an_entry_that_the_disk_has_no_room_for_is_an_error_and_those_before_are_kept(
    log, tmp_path, monkeypatch
):
    connect = sqlite3.connect

    def full(path, **given):
        connection = connect(path, **given)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        long = attrs.evolve(trial("prefetch"), reason="why " * 5_000)
        with pytest.raises(StoreError, match="cannot be written: database or disk is full"):
            log.add(key_of(long), long)
    resumed = SearchLog.open(tmp_path / "a", "train.py", FACTS)
    assert resumed.kept(key_of(trial("cache"))) == trial("cache")


def test_other_settings_are_another_trial():
    one = trial("cache")
    assert key_of(one) != key_of(attrs.evolve(one, stack=(plugin("cache", size=9),)))
    assert key_of(one) != key_of(attrs.evolve(one, action="drop"))
