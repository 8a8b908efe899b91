"""What a journal keeps, and what of a torn or damaged one is still read."""

from __future__ import annotations

import errno
import os
import random
from types import SimpleNamespace

import pytest
from support.failing_disk import Killed
from support.simulated_search import plugin

from tfopt_core.errors import InputError, StoreError
from tfopt_core.records.settings_search import EarnedValue, SettingsOutcome, SettingsTrial
from tfopt_core.records.tuning import StackTrial, TrialOutcome
from tfopt_core.tuning import journal as journals
from tfopt_core.tuning.journal import JOURNAL_FILE, Journal, damage_in_words, read_searches
from tfopt_core.tuning.session import _newest_stopped


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


def test_trials_of_settings_are_read_back_as_they_were_written(journal, tmp_path):
    made = SettingsTrial(
        values={"options.units": 16, "options.act": "relu"}, outcome=SettingsOutcome.MEASURED,
        figure=1.25, epochs=(0.5, 0.75), seconds=3.0, place="here",
    )  # fmt: skip
    earned = EarnedValue(
        key="options.units", value=16, untuned=None, stays=True, reason="1.2x", seconds=1.0
    )
    journal.add_settings(made)
    journal.add_earned("place", earned)
    [record] = read_searches(tmp_path)
    assert (record.settings, record.earned) == ((made,), {"place": earned})
    assert record.seconds == 8.0
    resumed = Journal.resume(tmp_path / "a", record)
    assert list(resumed.settings("here")) == [made]
    assert list(resumed.settings("there")) == []
    assert resumed.earned("place") == earned


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


@pytest.mark.parametrize("text", ["", '{"begin": {"version": 99}}\n'])
def test_a_journal_without_a_line_or_of_another_version_is_left_out(text, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / JOURNAL_FILE).write_text(text)
    assert read_searches(tmp_path) == ()


@pytest.mark.promise(41, injected="files that are no journal of a search")
@pytest.mark.parametrize("text", ["[]\n", "{}\n", "\x00\n", '{"trial": {"key": "a"}}\n'])
def test_a_file_that_is_no_journal_gives_no_trial_and_is_said_to_be_damaged(text, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / JOURNAL_FILE).write_text(text)
    [record] = read_searches(tmp_path)
    assert (record.target, record.trials, record.damaged) == ("", {}, 1)
    with pytest.raises(InputError, match='what "b" searched for is damaged; leave out --resume'):
        _newest_stopped([record], "train.py", {})


@pytest.mark.promise(41, injected="bits of a search's journal flipped, at drawn places")
def test_a_damaged_line_loses_its_trial_alone_and_is_said(journal, tmp_path):
    path, chance = tmp_path / "a" / JOURNAL_FILE, random.Random(9)
    whole, written = path.read_bytes(), [trial("cache"), trial("xla")]
    for _ in range(60):
        damaged = bytearray(whole)
        place = chance.randrange(len(whole) - 1)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        [record] = read_searches(tmp_path)
        assert 1 <= record.damaged <= 2  # a line that was cut in two is two
        assert "journal of the search" in damage_in_words([record])[0]
        number = whole[:place].count(b"\n")
        assert list(record.trials.values()) == [
            one for line, one in enumerate(written, 1)
            # two lines that were made one are lost together
            if line != number and not (damaged[place] != whole[place] == 10 and line == number + 1)
        ]  # fmt: skip


def test_a_figure_that_was_edited_is_no_result_and_the_trial_is_made_and_kept_again(
    journal, tmp_path
):
    path = tmp_path / "a" / JOURNAL_FILE
    path.write_text(path.read_text().replace('"seconds": 2.0', '"seconds": 3.0', 1))
    [record] = read_searches(tmp_path)
    assert [one.plugin for one in record.trials.values()] == ["xla"]
    again = Journal.resume(tmp_path / "a", record)
    assert again.kept(key_of(trial("cache"))) is None
    again.add(key_of(trial("cache")), trial("cache"))
    [record] = read_searches(tmp_path)
    assert {one.plugin for one in record.trials.values()} == {"cache", "xla"}


def failing_os(at: int, error: BaseException) -> SimpleNamespace:
    """The functions of `os`, of which the n-th that changes a file fails, after half of it."""
    count = 0

    def step(function, *given, half=None):
        nonlocal count
        count += 1
        if count == at or (isinstance(error, Killed) and count > at):
            if half is not None and count == at:
                function(given[0], half)
            raise error
        return function(*given)

    return SimpleNamespace(**{
        **vars(os),
        "ftruncate": lambda *given: step(os.ftruncate, *given),
        "write": lambda file, data: step(os.write, file, data, half=data[: len(data) // 2]),
        "fsync": lambda *given: step(os.fsync, *given),
    })  # fmt: skip


@pytest.mark.promise(51, injected="each operation on the journal fails, tears or is the last")
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
def test_whichever_operation_fails_the_trials_before_are_kept(tmp_path, monkeypatch, error):
    names, at, completed = ("cache", "xla", "prefetch"), 0, False
    while not completed:
        at += 1
        folder, kept = tmp_path / str(at) / "a", []
        with monkeypatch.context() as patch:
            patch.setattr(journals, "os", failing_os(at, error))
            try:
                made = Journal.begin(folder, "train.py", {})
                for name in names:
                    made.add(key_of(trial(name)), trial(name))
                    kept.append(name)
                completed = True
            except (StoreError, Killed):
                pass
        found = read_searches(folder.parent)
        read = [one.plugin for record in found for one in record.trials.values()]
        assert read[: len(kept)] == kept
        assert len(read) <= len(kept) + 1
        assert [record.damaged for record in found] in ([], [0])
        for record in found:  # and whoever resumes it adds to it
            again = Journal.resume(folder, record)
            again.add(key_of(trial("late")), trial("late"))
            [record] = read_searches(folder.parent)
            assert [*record.trials.values()][-1] == trial("late")
            assert record.damaged == 0
    assert at == 4 * 3 + 1  # to cut off, to write and to sync each of four lines, and none of these


def test_a_journal_that_cannot_be_written_names_the_file(tmp_path):
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        Journal.begin(tmp_path / "a", "train.py", {})


def test_other_settings_are_another_trial():
    one, other = (plugin("cache", storage=where) for where in ("memory", "disk"))
    key = Journal.key_of("add", "cache", (one,), ())
    assert key != Journal.key_of("add", "cache", (other,), ())
    assert key != Journal.key_of("drop", "cache", (one,), ())
