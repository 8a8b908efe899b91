"""What a journal keeps, and what of a torn or damaged one is still read."""

from __future__ import annotations

import pytest
from support.simulated_search import plugin

from tfopt_core.errors import StoreError
from tfopt_core.records.tuning import StackTrial, TrialOutcome
from tfopt_core.tuning.journal import JOURNAL_FILE, Journal, read_searches


def trial(name: str, outcome: TrialOutcome = TrialOutcome.NO_GAIN) -> StackTrial:
    return StackTrial(
        action="add", plugin=name, stack=(plugin(name, size=8),), without=(), outcome=outcome,
        reason="why", seconds=2.0,
    )  # fmt: skip


def key_of(one: StackTrial) -> str:
    return Journal.key_of(one.action, one.plugin, one.stack, one.without)


@pytest.fixture
def journal(tmp_path):
    made = Journal.begin(tmp_path / "a", "train.py", {"CPU": "one"})
    for name in ("cache", "xla"):
        made.add(key_of(trial(name)), trial(name))
    return made


def test_trials_are_read_back_as_they_were_written(journal, tmp_path):
    [record] = read_searches(tmp_path)
    assert list(record.trials.values()) == [trial("cache"), trial("xla")]
    assert (record.target, record.facts, record.ended) == ("train.py", {"CPU": "one"}, False)
    assert record.seconds == 4.0


def test_a_line_that_a_kill_has_torn_loses_that_trial_alone(journal, tmp_path):
    path = tmp_path / "a" / JOURNAL_FILE
    path.write_bytes(path.read_bytes()[:-7])
    [record] = read_searches(tmp_path)
    assert [one.plugin for one in record.trials.values()] == ["cache"]
    again = Journal.resume(tmp_path / "a", record)
    again.add(key_of(trial("prefetch")), trial("prefetch"))
    [record] = read_searches(tmp_path)
    assert [one.plugin for one in record.trials.values()] == ["cache", "prefetch"]


def test_at_whatever_byte_it_is_cut_the_whole_lines_before_are_read(journal, tmp_path):
    path = tmp_path / "a" / JOURNAL_FILE
    whole = path.read_bytes()
    lines = whole.count(b"\n")
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        records = read_searches(tmp_path)
        complete = whole[:end].count(b"\n")
        assert len(records) == (1 if complete else 0)
        assert [len(one.trials) for one in records] == ([complete - 1] if complete else [])
    assert lines == 3


def test_the_end_and_its_proof_are_kept(journal, tmp_path):
    journal.end("20261123-120000-abcd")
    [record] = read_searches(tmp_path)
    assert (record.ended, record.proof) == (True, "20261123-120000-abcd")


@pytest.mark.parametrize("text", ["", "[]\n", "{}\n", '{"begin": {"version": 99}}\n', "\x00\n"])
def test_a_file_that_is_no_journal_is_left_out(text, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / JOURNAL_FILE).write_text(text)
    assert read_searches(tmp_path) == ()


def test_a_journal_that_cannot_be_written_names_the_file(tmp_path):
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        Journal.begin(tmp_path / "a", "train.py", {})


def test_other_settings_are_another_trial():
    one, other = (plugin("cache", storage=where) for where in ("memory", "disk"))
    key = Journal.key_of("add", "cache", (one,), ())
    assert key != Journal.key_of("add", "cache", (other,), ())
    assert key != Journal.key_of("drop", "cache", (one,), ())
