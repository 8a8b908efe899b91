"""The search of options against simulated trainings: what it finds, lists, keeps and proves."""

from __future__ import annotations

import functools
import math
import os
import signal
import subprocess
import sys
import time

import attrs
import pytest
from support.simulated_search import plugin
from support.simulated_settings import (
    EPOCHS,
    RATES,
    SimulatedTrainings,
    make_runner,
    make_value_search,
)

from tfopt_core.errors import StoreError, TfoptError
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import describe_plugin
from tfopt_core.tuning.progress import SettingsTrialEnded
from tfopt_core.tuning.results import SettingsSearch, SettingsTrial, TrialOutcome
from tfopt_core.tuning.search_log import SearchLog, read_searches
from tfopt_core.tuning.settings_proof import pairs_within, prove
from tfopt_core.tuning.settings_runs import SettingsRunner, TrialTraining
from tfopt_core.tuning.settings_search import ValueSearch
from tfopt_core.tuning.storage import open_storage
from tfopt_core.tuning.study import Study
from tfopt_core.tuning.trial_runs import NoFigure
from tfopt_core.tuning.tunables import tunables

pytest.importorskip("optuna", reason="the tune extra is not installed")
from optuna.trial import TrialState


@pytest.mark.parametrize("objective", ["quality", "time-to-target"])
def test_a_better_learning_rate_is_found_and_reads_only_the_part_set_aside(objective, tmp_path):
    trainings = SimulatedTrainings()
    search = make_value_search(
        trainings, tmp_path, {"learning_rate": RATES}, objective=objective, planned=15
    )
    search.go()
    assert 0.002 < search.best["options.learning_rate"] < 0.05
    assert all(aside for _, aside, _ in trainings.runs)
    values = [one.values for one in search.trials if one.values]
    assert len(values) == 15
    # the untuned values are tried first, by quality in the training that tells the time
    assert (values[0] == {"options.learning_rate": 0.001}) is (objective != "quality")
    assert ({} in [one.values for one in search.trials]) is (objective == "quality")


def test_for_quality_all_have_the_time_of_the_untuned_training(tmp_path):
    trainings = SimulatedTrainings()
    # four times the units take longer, and the learning rate is the same
    search = make_value_search(trainings, tmp_path, {"units": [32, 128]}, planned=4)
    search.go()
    untuned, *others = search.trials
    assert untuned.values == {}
    [slow] = [one for one in others if one.values["options.units"] == 128]
    assert slow.outcome is TrialOutcome.MEASURED
    assert len(slow.epochs) < EPOCHS
    assert slow.figure < untuned.figure
    assert search.best == {}


def test_a_training_that_ends_no_epoch_in_time_or_misses_the_target_is_no_winner(tmp_path):
    search = make_value_search(SimulatedTrainings(), tmp_path / "a", {"units": [32, 11]}, planned=4)
    search.go()
    [late] = [one for one in search.trials if one.values.get("options.units") == 11]
    assert late.outcome is TrialOutcome.MISSED
    assert "no epoch ended" in late.reason
    missing = make_value_search(
        SimulatedTrainings(), tmp_path / "b", {"learning_rate": [0.001, 1.0]},
        objective="time-to-target", planned=4,
    )  # fmt: skip
    missing.go()
    [missed] = [one for one in missing.trials if one.values == {"options.learning_rate": 1.0}]
    assert missed.outcome is TrialOutcome.MISSED
    assert missed.reason == "it never reached the target"
    assert missing.best == {}


def test_a_pair_has_one_seed_and_the_ratio_is_that_of_the_untuned_to_its_own(tmp_path):
    trainings = SimulatedTrainings()
    search = make_value_search(
        trainings, tmp_path, {"learning_rate": [0.001, 0.01]}, objective="time-to-target"
    )
    search.go()
    seeds = [seed for _, _, seed in trainings.runs]
    assert seeds[::2] == seeds[1::2]
    [better] = [one for one in search.trials if one.values["options.learning_rate"] == 0.01]
    # by the simulation: the target after 4 epochs without, 3 with
    assert better.figure == pytest.approx(4 / 3, rel=0.02)


def test_where_the_untuned_training_fails_its_failure_is_not_that_of_the_values(tmp_path):
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"units": [7, 32]}, objective="time-to-target"
    )
    runner = search.runner
    request = runner.tune.request
    recipe = request.recipe
    workload = attrs.evolve(recipe.workload, options={"units": 7})
    untuned = attrs.evolve(request, recipe=attrs.evolve(recipe, workload=workload))
    trial = runner.attempt(
        {"options.units": 32, "options.learning_rate": 0.01}, 1, untuned=untuned, allowed=None,
        on_epoch=None,
    )  # fmt: skip
    assert trial.outcome is TrialOutcome.FAILED
    assert trial.reason == "the untuned training beside it failed: raised ValueError: 7 units"


def test_a_value_with_which_the_target_is_missed_is_put_back(tmp_path):
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, objective="time-to-target"
    )
    search.best = {"options.learning_rate": 1.0}
    earned = search._contrast("options.learning_rate", {})
    assert not earned.stays
    assert earned.reason == "it never reached the target with it"


def test_what_a_value_earns_by_quality_may_be_a_large_difference(tmp_path, monkeypatch):
    search = make_value_search(SimulatedTrainings(), tmp_path, {"learning_rate": RATES})
    monkeypatch.setattr(SettingsRunner, "gain", lambda self, with_, without, allowed: 1500.0)
    search.best, search.allowed = {"options.learning_rate": 0.01}, 100.0
    earned = search._contrast("options.learning_rate", {})
    assert (earned.figure, earned.stays) == (1500.0, True)
    assert "+1.5e+03 val_accuracy with it" in earned.reason


def test_the_side_without_a_figure_is_named(tmp_path, monkeypatch):
    def within(self, seconds):
        if seconds == math.inf:  # asked of the untuned one
            raise NoFigure(TrialOutcome.FAILED, "its metric is nan")
        return 1.0

    monkeypatch.setattr(TrialTraining, "within", within)
    runner = make_runner(SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, proves=True)
    proof = prove(runner, {"options.learning_rate": 0.01}, pairs=4, seed=1)
    assert all("the untuned training has no figure" in one.failure for one in proof.pairs)


@pytest.mark.parametrize("pruner", ["median", "successive-halving", "hyperband"])
def test_a_training_that_learns_worse_is_ended_early(pruner, tmp_path):
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, pruner=pruner, planned=16,
        sampler="random",
    )  # fmt: skip
    search.go()
    pruned = [one for one in search.trials if one.outcome is TrialOutcome.PRUNED]
    assert pruned
    assert all(1 <= len(one.epochs) < EPOCHS and one.figure is None for one in pruned)
    assert all("worse than others" in one.reason for one in pruned)
    assert search.best


@pytest.mark.parametrize(
    ("units", "outcome"), [(7, TrialOutcome.FAILED), (9, TrialOutcome.OUT_OF_MEMORY)]
)
def test_a_failure_is_a_row_with_its_reason_and_the_search_goes_on(units, outcome, tmp_path):
    ended = []
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"units": [units, 16, 32]}, observer=ended.append
    )
    search.go()
    [failed] = [one for one in search.trials if one.outcome is outcome]
    assert failed.values == {"options.units": units}
    assert failed.reason == "raised ValueError: 7 units"
    tried = {one.values.get("options.units") for one in search.trials}
    assert tried == {None, units, 16}  # 32 is there, untuned
    lines = [one for one in ended if isinstance(one, SettingsTrialEnded)]
    assert [one.number for one in lines] == [1, 2]


def test_few_values_are_tried_once_each(tmp_path):
    trainings = SimulatedTrainings()
    search = make_value_search(trainings, tmp_path, {"units": [16, 32]}, planned=50)
    search.go()
    assert [one.values for one in search.trials] == [{}, {"options.units": 16}]
    assert "not tried" in search.why_ended


def test_a_figure_of_zero_is_a_figure(tmp_path):
    search = make_value_search(SimulatedTrainings(), tmp_path, {"units": [16, 64]})
    measured = functools.partial(SettingsTrial, outcome=TrialOutcome.MEASURED)
    search.trials = [  # of a loss, negated
        measured(values={}, figure=-0.5), measured(values={"options.units": 16}, figure=-0.0),
        measured(values={"options.units": 64}, figure=-0.2),
    ]  # fmt: skip
    assert search._best_values() == {"options.units": 16}


def test_an_option_whose_name_is_quoted_in_a_path_keeps_its_name():
    found = SettingsSearch(
        sampler="tpe", pruner="none", planned=1, best={'options."größe"': 3, "plugins.l2.rate": 1}
    )
    assert found.options == {"größe": 3}


@pytest.fixture
def storage(tmp_path):
    return open_storage(f"sqlite:///{tmp_path}/studies.sqlite")


def test_what_earns_nothing_is_put_back(tmp_path, storage):
    # by the simulation, units do nothing but make steps slower
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"learning_rate": RATES, "units": [40, 48]}, planned=15,
        storage=storage,
    )  # fmt: skip
    search.go()
    by_key = {one.key: one for one in search.earned}
    assert by_key["options.learning_rate"].stays
    assert by_key["options.learning_rate"].untuned == 0.001
    assert by_key["options.learning_rate"].figure > 0
    assert not by_key["options.units"].stays
    assert set(search.best) == {"options.learning_rate"}
    # after a stop they are not asked again
    [record] = read_searches(tmp_path)
    trainings = SimulatedTrainings()
    again = make_value_search(
        trainings, tmp_path, {"learning_rate": RATES, "units": [40, 48]}, planned=15,
        log=SearchLog.resume(tmp_path / "search", record), storage=storage,
    )  # fmt: skip
    again.go()
    assert trainings.runs == []
    assert (again.best, again.earned) == (search.best, search.earned)


def test_ctrl_c_keeps_the_best_and_a_resume_makes_the_rest(tmp_path, storage):
    options = {"learning_rate": RATES}
    stopped = make_value_search(
        SimulatedTrainings(interrupt_at=8), tmp_path, options, storage=storage
    )
    stopped.go()
    assert stopped.interrupted
    assert "--resume" in stopped.why_ended
    assert stopped.best
    [record] = read_searches(tmp_path)
    assert record.seconds == pytest.approx(sum(one.seconds for one in stopped.trials))
    trainings = SimulatedTrainings()
    log = SearchLog.resume(tmp_path / "search", record)
    resumed = make_value_search(trainings, tmp_path, options, log=log, storage=storage)
    resumed.go()
    assert resumed.trials[: len(stopped.trials)] == stopped.trials
    assert len(trainings.runs) == 12 - 7
    assert not resumed.interrupted


def test_a_second_search_begins_from_the_first_and_makes_its_own_trials(tmp_path, storage):
    options = {"learning_rate": RATES, "units": [16, 7]}
    first = SimulatedTrainings()
    make_value_search(first, tmp_path, options, planned=6, storage=storage).go()
    [record] = read_searches(tmp_path)
    log = SearchLog.begin(tmp_path / "second", "here", {"CPU": "one"}, (record,))
    second = make_value_search(
        SimulatedTrainings(), tmp_path, options, log=log, planned=3, storage=storage
    )
    second.go()
    kept = [one for one in second.trials if one.kept_from]
    assert {one.kept_from for one in kept} == {record.id}
    # what failed may have been the machine's doing
    assert all(one.outcome is TrialOutcome.MEASURED for one in kept)
    assert len([one for one in second.trials if not one.kept_from]) == 3
    assert list(log.begun_from) == [record.id]
    third = make_value_search(
        SimulatedTrainings(), tmp_path / "third", options, planned=3, storage=storage, fresh=True
    )
    third.go()
    assert not any(one.kept_from for one in third.trials)


def test_trials_of_a_search_that_was_killed_are_tried_again(tmp_path, storage):
    killed = make_value_search(SimulatedTrainings(), tmp_path, {"units": [16, 48]}, storage=storage)
    asked = killed.study._study.ask()
    lost = asked.suggest_categorical("options.units", (16, 48))
    [record] = read_searches(tmp_path)
    again = make_value_search(
        SimulatedTrainings(), tmp_path, {"units": [16, 48]}, storage=storage, planned=1,
        log=SearchLog.resume(tmp_path / "search", record),
    )  # fmt: skip
    again.go()
    assert [one.values for one in again.trials] == [{}, {"options.units": lost}]


# Several processes on one storage


def joined(tmp_path, name, trainings, **given):
    """The search of a process, which shares the storage of the folder."""
    return make_value_search(
        trainings, tmp_path / name, {"learning_rate": RATES}, shared=True, sampler="random",
        log=SearchLog.begin(tmp_path / name / f"search-{name}", "here", {}),
        storage=open_storage(f"sqlite:///{tmp_path}/shared.db"), **given,
    )  # fmt: skip


def test_searches_of_one_storage_make_the_planned_trials_together(tmp_path, monkeypatch):
    first = joined(tmp_path, "a", SimulatedTrainings(interrupt_at=3), planned=4)
    first.go()
    assert first.interrupted
    assert len([one for one in first.trials if one.values]) == 2
    monkeypatch.setattr("platform.node", lambda: "node-b")
    second = joined(tmp_path, "b", SimulatedTrainings(), planned=4)
    second.go()
    tried = [one for one in second.trials if one.values]
    assert len(tried) == 4
    assert [bool(one.machine) for one in tried] == [True, True, False, False]
    shared = second.study.shared()
    assert (sorted(shared.made.values()), shared.under_way) == ([2, 2], 0)
    assert second.best


def test_a_trial_that_was_freed_meanwhile_is_lost_and_its_search_goes_on(tmp_path):
    search = joined(tmp_path, "a", SimulatedTrainings(), planned=2)
    attempts, make = [], search.study.make

    def freed_once(attempt):
        def attempted(asked):
            attempts.append(asked)
            if len(attempts) == 1:
                search.study._study.tell(asked.trial.number, state=TrialState.FAIL)
                assert asked.report(0.5, 0)
            return attempt(asked)

        return make(attempted)

    search.study.make = freed_once
    search.go()
    assert len(attempts) == 3
    assert search.study.count() == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from support.simulated_settings import RATES, SimulatedTrainings, make_value_search
from tfopt_core.tuning import storage
storage.HEARTBEAT_SECONDS = 1
folder = Path(sys.argv[1])
search = make_value_search(
    SimulatedTrainings(), folder / "a", {"learning_rate": RATES}, shared=True, sampler="random",
    storage=storage.open_storage(f"sqlite:///{folder}/shared.db"), objective="time-to-target",
)
def attempt(asked):
    print(asked.values["options.learning_rate"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
search.study.make(attempt)
"""


@pytest.mark.promise(53, injected="SIGKILL of a process in its trial, with a beat each second")
def test_the_values_of_a_process_that_was_killed_are_tried_by_another(tmp_path, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    lost = {"options.learning_rate": float(done.stdout)}
    monkeypatch.setattr("tfopt_core.tuning.storage.HEARTBEAT_SECONDS", 1)
    search = joined(tmp_path, "b", SimulatedTrainings(), objective="time-to-target", planned=1)
    assert not search.study.has_room()  # it may be alive
    time.sleep(3)
    assert search.study.has_room()
    search.go()
    assert [one.values for one in search.trials] == [lost]
    assert search.study.shared().under_way == 0


def test_a_storage_that_is_lost_ends_the_search_with_its_name(tmp_path):
    search = joined(tmp_path, "a", SimulatedTrainings(), planned=2)
    (tmp_path / "shared.db").write_bytes(b"no database at all, " * 200)
    with pytest.raises(StoreError, match=r'the storage "sqlite:.*shared.db" cannot be used: '):
        search.go()


def test_the_budget_ends_it_and_says_so(tmp_path):
    search = make_value_search(
        SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, budget=60.0
    )
    search.go()
    assert len(search.trials) < 12
    assert "--budget" in search.why_ended


def settings_of_a_plugin(trainings, folder):
    """A search by time over the parts of a batch, which stands at 4."""
    search = make_value_search(trainings, folder, {}, objective="time")
    runner = search.runner
    info = describe_plugin(
        "gradient-accumulation", find("gradient-accumulation", registrations()).load()
    )
    runner.stack = (plugin("gradient-accumulation", steps=4),)
    runner.space = tunables(runner.tune.request.recipe, runner.stack, (info,), {})
    study = Study(runner.space, sampler="tpe", pruner="none", seed=3)
    return ValueSearch(tune=runner.tune, runner=runner, study=study)


def test_by_time_the_settings_of_a_plugin_are_searched_on_all_of_the_data(tmp_path):
    trainings = SimulatedTrainings()
    search = settings_of_a_plugin(trainings, tmp_path)
    search.go()
    [key] = [one.key for one in search.runner.space]
    by_steps = {one.values[key]: one.figure for one in search.trials}
    assert by_steps[2] > by_steps[4] > by_steps[8]
    assert search.best == {key: 2}
    assert not any(aside for _, aside, _ in trainings.runs)


def test_by_time_a_plugin_that_changes_the_training_is_refused(tmp_path):
    trainings = SimulatedTrainings(equivalence="changes")
    search = settings_of_a_plugin(trainings, tmp_path)
    with pytest.raises(TfoptError, match=r"changes the training, which .time. may not"):
        search.go()
    assert trainings.runs == []


# The proof


def test_fresh_pairs_confirm_a_gain_on_the_validation_data(tmp_path):
    trainings = SimulatedTrainings()
    options = {"learning_rate": RATES}
    runner = make_runner(trainings, tmp_path, options, proves=True)
    proof = prove(runner, {"options.learning_rate": 0.01}, pairs=5, seed=1)
    assert proof.confirmed
    assert len(proof.pairs) == 5
    assert proof.low <= proof.figure <= proof.high
    assert "95% interval" in proof.statement
    assert not any(aside for _, aside, _ in trainings.runs)
    assert {options["learning_rate"] for options, _, _ in trainings.runs} == {0.001, 0.01}


def test_fresh_pairs_do_not_confirm_what_is_no_better(tmp_path):
    options = {"learning_rate": RATES}
    runner = make_runner(SimulatedTrainings(), tmp_path, options, proves=True)
    proof = prove(runner, {"options.learning_rate": 0.0009}, pairs=4, seed=1)
    assert not proof.confirmed
    assert len(proof.pairs) == 4


def test_a_training_that_ends_no_epoch_in_time_counts_as_the_worst_of_its_pair(tmp_path):
    runner = make_runner(SimulatedTrainings(), tmp_path, {"units": [11, 32]}, proves=True)
    proof = prove(runner, {"options.units": 11}, pairs=4, seed=1)
    assert not proof.confirmed
    assert proof.figure < 0
    assert "worse" in proof.statement
    assert not any(one.failure for one in proof.pairs)


def test_a_training_that_fails_voids_the_proof(tmp_path):
    runner = make_runner(SimulatedTrainings(), tmp_path, {"units": [7, 32]}, proves=True)
    proof = prove(runner, {"options.units": 7}, pairs=4, seed=1)
    assert not proof.confirmed
    assert proof.statement.startswith("void: 4 of 4 pairs failed: the tuned training failed")
    assert all(one.failure for one in proof.pairs)


def test_an_interrupted_proof_confirms_nothing(tmp_path):
    trainings = SimulatedTrainings(interrupt_at=5)
    runner = make_runner(trainings, tmp_path, {"learning_rate": RATES}, proves=True)
    proof = prove(runner, {"options.learning_rate": 0.01}, pairs=4, seed=1)
    assert proof.interrupted
    assert not proof.confirmed
    assert len(proof.pairs) == 2


def test_pairs_are_as_many_as_the_time_holds():
    assert [pairs_within(seconds, 10.0) for seconds in (5.0, 75.0, 900.0)] == [4, 7, 12]
