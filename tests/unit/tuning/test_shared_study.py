"""One study of several processes: counted together, taken over, freed, and never mixed."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import attrs
import pytest
from support.simulated_settings import RATES, SimulatedTrainings, make_runner, make_value_search

from tfopt_core.errors import StoreError
from tfopt_core.records.settings_search import SettingsOutcome, SettingsTrial
from tfopt_core.tuning import heartbeat
from tfopt_core.tuning.claimant import Claimant
from tfopt_core.tuning.heartbeat import SILENT_SECONDS, BeatsSeen, Heartbeat
from tfopt_core.tuning.journal import Journal, read_searches
from tfopt_core.tuning.shared_storage import open_storage
from tfopt_core.tuning.shared_study import SharedStudy, search_facts, study_name
from tfopt_core.tuning.study import Study

pytest.importorskip("optuna", reason="the tune extra is not installed")

FACTS = {"workload": "w", "objective": "quality"}


@attrs.define
class Clock:
    seconds: float = 1e9

    def __call__(self):
        return self.seconds


def joined(path, folder, name, *, planned=6, place=None, facts=FACTS, beats=None, ranges=None):
    """The study as a process on a machine of this name has it."""
    runner = make_runner(SimulatedTrainings(), folder, ranges or {"learning_rate": RATES})
    claimant = Claimant.of_this_process(f"search-{name}", ())
    claimant = attrs.evolve(claimant, machine=name, place=place or name)
    return SharedStudy(
        runner.space, sampler="random", pruner="none", planned=planned,
        seed=sum(name.encode()), storage=open_storage(str(path)), facts=facts, label="w",
        claimant=claimant, beats=beats,
    )  # fmt: skip


def ended(asked, figure=0.5):
    return SettingsTrial(
        values=asked.values, outcome=SettingsOutcome.MEASURED, figure=figure, epochs=(0.1, figure)
    )


def make(study, figure=0.5):
    asked = study.ask()
    study.tell(asked, ended(asked, figure))
    return asked


def test_trials_of_all_machines_are_counted_together_and_taken_over(tmp_path):
    a, b = (joined(tmp_path / "log", tmp_path, name, planned=3) for name in ("a", "b"))
    of_a = make(a, 0.7)
    make(b)
    [news] = b.news()
    assert (news.values, news.figure, news.machine) == (of_a.values, 0.7, "a")
    assert b.news() == ()
    assert a.has_room(0)
    third = a.ask()
    # the one that is under way counts too
    assert not b.has_room(0)
    a.tell(third, ended(third))
    assert a.count(0) == b.count(0) == 3
    shared = b.shared()
    assert (shared.made, shared.under_way) == ({"a": 2, "": 1}, {})


def test_two_that_ask_for_the_last_trial_get_one(tmp_path):
    a, b = (joined(tmp_path / "log", tmp_path, name, planned=2) for name in ("a", "b"))
    make(a)
    assert a.has_room(0)
    assert b.has_room(0)
    last = a.ask()
    assert last is not None
    assert b.ask() is None
    a.tell(last, ended(last))
    assert a.count(0) == 2


def test_values_that_another_machine_tries_now_are_not_tried_again(tmp_path):
    ranges = {"units": [16, 32]}
    a, b = (joined(tmp_path / "log", tmp_path, name, ranges=ranges) for name in ("a", "b"))
    first = a.ask()
    b._study.enqueue_trial(first.values)
    second = b.ask()
    assert second.values == first.values
    assert second.under_way
    b.repeat(second, None)
    a.tell(first, ended(first))
    assert b.count(0) == 1
    [news] = b.news()
    assert news.values == first.values


def test_two_searches_over_one_storage_make_the_planned_trials_together(tmp_path):
    ranges = {"learning_rate": RATES}
    log = tmp_path / "log"
    first = make_value_search(
        SimulatedTrainings(interrupt_at=3), tmp_path / "a", ranges,
        study=joined(log, tmp_path, "a", planned=4),
    )  # fmt: skip
    first.go()
    assert first.interrupted
    assert len([one for one in first.trials if one.values]) == 2
    second_study = joined(log, tmp_path, "b", planned=4)
    second = make_value_search(SimulatedTrainings(), tmp_path / "b", ranges, study=second_study)
    second.go()
    tried = [one for one in second.trials if one.values]
    assert len(tried) == 4
    assert sorted(one.machine for one in tried) == ["", "", "a", "a"]
    # Ctrl-C freed the trial under way, and its values were tried by the other
    assert second.study.shared().under_way == {}
    assert second.best


def test_a_trial_of_a_process_that_is_gone_is_freed_and_its_values_are_tried_again(tmp_path):
    dead = joined(tmp_path / "log", tmp_path, "a", place="here")
    lost = dead.ask()
    dead._claimant = attrs.evolve(dead._claimant, pid=2**22 + 1)
    lost.trial.set_user_attr("tfopt:claim", dead._claimant.claim("made"))
    dead._stop_heart()
    b = joined(tmp_path / "log", tmp_path, "b", place="here")
    assert b.has_room(0)
    again = b.ask()
    assert again.values == lost.values
    b.tell(again, ended(again))
    assert b.count(0) == 1
    assert b.shared().freed == 1
    # a machine that was only asleep loses nothing
    dead.tell(lost, ended(lost, 0.9))
    assert [one.figure for one in b.news()] == [0.9]


def test_a_silent_trial_of_another_machine_is_freed_by_the_clock_of_the_one_that_looks(tmp_path):
    a = joined(tmp_path / "log", tmp_path, "a")
    a.ask()
    a._stop_heart()
    clock = Clock()
    b = joined(tmp_path / "log", tmp_path, "b", beats=BeatsSeen(now=clock))
    b.has_room(0)
    clock.seconds += SILENT_SECONDS - 1
    assert b.shared().under_way == {"a": 1}
    clock.seconds += 2
    assert (b.shared().under_way, b.shared().freed) == ({}, 1)


def test_a_storage_that_fails_in_an_epoch_ends_no_training_and_no_other_process_is_blamed(
    tmp_path, monkeypatch
):
    study = joined(tmp_path / "log", tmp_path, "a")
    asked = study.ask()
    with monkeypatch.context() as lost:
        lost.setattr(asked.trial, "report", Mock(side_effect=ConnectionResetError("by peer")))
        assert not asked.report(0.5, 1)
    study._asked = None  # as after a `tell` that could not be written
    assert (study.shared().under_way, study.warnings) == ({}, {})
    study._stop_heart()


def test_a_beat_keeps_a_trial_alive():
    clock = Clock()
    seen = BeatsSeen(now=clock)
    for count in range(5):
        assert not seen.is_dead(1, count)
        clock.seconds += 2 * SILENT_SECONDS
    assert seen.is_dead(1, 4)
    assert not seen.is_dead(2, "no beat at all")
    clock.seconds += SILENT_SECONDS + 1
    assert seen.is_dead(2, "no beat at all")


def test_a_different_search_in_the_same_storage_is_left_alone_and_said(tmp_path):
    make(joined(tmp_path / "log", tmp_path, "a"))
    other = joined(tmp_path / "log", tmp_path, "b", facts={**FACTS, "objective": "memory"})
    assert other.news() == ()
    [warning] = other.warnings
    assert 'holds 1 trials of another search of "w"' in warning
    assert "objective was quality, is memory" in warning
    assert not joined(tmp_path / "log", tmp_path, "c").warnings


def test_machines_differ_and_the_study_does_not():
    facts = {"CPU": "x", "Python": "3.11", 'code of plugin "l2"': "1", 'code of plugin "my"': "2"}
    given = {"ranges": {"options.units": [1, 2]}, "metric": "val_loss", "sign": 1.0}
    here = search_facts({**facts, '"/a/train.py"': "h"}, "/a", {"l2"}, **given)
    there = search_facts({
        **facts, "CPU": "y", '"/b/train.py"': "h", 'code of plugin "my"': "3",
    }, "/b", {"l2"}, **given)  # fmt: skip
    assert study_name(here) == study_name(there)
    for changed in (
        search_facts({**facts, '"/a/train.py"': "i"}, "/a", {"l2"}, **given),
        search_facts({**facts, '"/a/train.py"': "h", "Python": "3.12"}, "/a", {"l2"}, **given),
        search_facts({**facts, '"/a/train.py"': "h"}, "/a", {"l2", "my"}, **given),
        search_facts({**facts, '"/a/train.py"': "h"}, "/a", {"l2"}, **{**given, "ranges": {}}),
        search_facts({**facts, '"/a/train.py"': "h"}, "/a", {"l2"}, **{**given, "sign": -1.0}),
    ):
        assert study_name(changed) != study_name(here)


def test_a_journal_that_is_damaged_meanwhile_ends_the_search_with_its_name(tmp_path):
    study = joined(tmp_path / "log", tmp_path, "a")
    make(study)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"junk\n{}\n")
    with pytest.raises(StoreError, match=r'the storage ".*log" cannot be used: .*JSON'):
        study.ask()
    study.close()


def test_what_another_program_stored_is_left_out_and_said(tmp_path):
    a, b = (joined(tmp_path / "log", tmp_path, name) for name in ("a", "b"))
    asked = a.ask()
    asked.trial.set_user_attr("tfopt:trial", {"values": 3})
    a._stop_heart()
    a._study.tell(asked.trial, 0.3)
    assert b.news() == ()
    assert list(b.warnings) == ["trial 0 of the storage is damaged and left out"]
    make(b)  # and the search goes on


def test_a_claim_names_the_machine_and_a_stack_that_differs():
    one = Claimant.of_this_process("s1", ("xla",))
    assert one.name_of(one.claim("made")) == ""
    assert not one.is_gone(one.claim("made"))
    here = attrs.evolve(one, search="s2")
    assert one.name_of(here.claim("made")) == "this machine (s2)"
    there = attrs.evolve(here, machine="node-b", place="there", stack=(), pid=2**22 + 1)
    assert one.name_of(there.claim("made")) == "node-b, with no plugins"
    assert not one.is_gone(there.claim("made"))
    assert one.is_gone(attrs.evolve(there, place=one.place).claim("made"))
    assert one.is_gone({**here.claim("made"), "begun": 0.0})
    assert not one.is_gone({"place": one.place, "pid": "x"})
    assert one.name_of({}) == "an unnamed process"


def test_a_training_goes_on_where_its_trial_was_freed_meanwhile(tmp_path):
    study = joined(tmp_path / "log", tmp_path, "a")
    asked = study.ask()
    study._free(asked.trial)
    assert not asked.report(0.5, 0)
    study.tell(asked, ended(asked))
    assert study.count(0) == 1


def test_a_result_that_the_storage_does_not_take_is_kept_and_its_trial_freed(tmp_path, monkeypatch):
    def search_of(study, **given):
        return make_value_search(
            SimulatedTrainings(), tmp_path / "a", {"learning_rate": RATES}, study=study, **given
        )

    def lose(study, asked, trial):
        raise OSError("gone")

    study = joined(tmp_path / "log", tmp_path, "a", planned=3)
    with monkeypatch.context() as patch:
        patch.setattr(Study, "tell", lose)
        with pytest.raises(StoreError, match="gone"):
            search_of(study).go()
    assert study.shared().under_way == {}
    [record] = read_searches(tmp_path / "a")
    [kept] = [one for one in record.settings if one.values]
    study = joined(tmp_path / "log", tmp_path, "a", planned=3)
    again = search_of(study, journal=Journal.resume(tmp_path / "a" / "search", record))
    again.go()
    values = [one.values for one in again.trials if one.values]
    assert values[0] == kept.values
    assert len(values) == study.count(0) == 3
    assert values.count(kept.values) == 1


def test_what_failed_on_another_machine_is_tried_here(tmp_path):
    ranges = {"units": [16, 48]}
    a = joined(tmp_path / "log", tmp_path, "a", ranges=ranges)
    asked = a.ask()
    a.tell(asked, SettingsTrial(values=asked.values, outcome=SettingsOutcome.OUT_OF_MEMORY))
    b = joined(tmp_path / "log", tmp_path, "b", ranges=ranges)
    search = make_value_search(SimulatedTrainings(), tmp_path / "b", ranges, study=b)
    search.go()
    tried = [(one.machine, one.outcome) for one in search.trials if one.values == asked.values]
    assert tried == [("a", SettingsOutcome.OUT_OF_MEMORY), ("", SettingsOutcome.MEASURED)]


def test_a_beat_that_hangs_does_not_keep_a_trial_from_ending(monkeypatch):
    monkeypatch.setattr(heartbeat, "STOP_SECONDS", 0.01)
    begun, answered, written = threading.Event(), threading.Event(), []

    def write(beat):
        begun.set()
        answered.wait(60.0)
        written.append(beat)

    heart = Heartbeat(write, 1.0)
    assert begun.wait(60.0)
    heart.stop()
    assert written == []
    answered.set()
