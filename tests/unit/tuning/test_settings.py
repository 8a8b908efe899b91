"""The search of settings against simulated trainings: what it finds, lists and keeps."""

import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import attrs
import pytest
from support.simulated_search import plugin
from support.simulated_settings import RATES, SimulatedTrainings, make_value_search, searched

from tfopt_core.errors import RecipeError, StoreError
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import describe_plugin
from tfopt_core.trials.holdout import with_holdout
from tfopt_core.tuning.candidates import with_options
from tfopt_core.tuning.results import SettingsTrial, TrialOutcome, values_below
from tfopt_core.tuning.search_log import SearchLog, read_searches
from tfopt_core.tuning.settings import ValueSearch
from tfopt_core.tuning.storage import open_storage
from tfopt_core.tuning.study import study_facts
from tfopt_core.tuning.trials import TrialMaker

pytest.importorskip("optuna", reason="the tune extra is not installed")
from optuna.trial import TrialState


def values_of(search):
    return [one.values for one in search.found.trials]


def test_a_better_learning_rate_is_found_and_reads_only_the_part_set_aside(tmp_path):
    trainings = SimulatedTrainings()
    search, _ = searched(trainings, tmp_path, {"learning_rate": RATES}, planned=15)
    assert 0.002 < search.best_values()["options.learning_rate"] < 0.05
    assert all(aside for _, aside, _ in trainings.runs)
    assert len(search.found.trials) == 15
    # what the untuned values give is known
    assert {"options.learning_rate": 0.001} not in values_of(search)


def test_a_training_that_misses_the_target_is_no_winner_and_costs_no_second_one(tmp_path):
    trainings = SimulatedTrainings()
    search, _ = searched(trainings, tmp_path, {"learning_rate": [0.001, 1.0]}, planned=4)
    [missed] = search.found.trials
    assert missed.outcome is TrialOutcome.MISSED
    assert missed.reason == "it never reached the target"
    assert search.best_values() == {}
    assert len(trainings.runs) == 1


def test_a_pair_has_one_seed_and_the_ratio_is_that_of_the_untuned_to_its_own(tmp_path):
    trainings = SimulatedTrainings()
    search, _ = searched(trainings, tmp_path, {"learning_rate": [0.001, 0.01]})
    [(tuned, _, seed), (untuned, _, other)] = trainings.runs
    assert (tuned["learning_rate"], untuned["learning_rate"]) == (0.01, 0.001)
    assert seed == other
    [better] = search.found.trials
    # by the simulation: the target after 4 epochs without, 3 with
    assert better.figure == pytest.approx(4 / 3, rel=0.02)


def test_where_the_untuned_training_fails_its_failure_is_not_that_of_the_values(tmp_path):
    search = make_value_search(SimulatedTrainings(), tmp_path, {"units": [7, 32]})
    maker = search.maker
    untuned = with_options(maker.tune.request.recipe, {"units": 7})
    maker.request = attrs.evolve(maker.request, recipe=with_holdout(untuned))
    trial = search._made(Mock(values={"options.units": 32}, report=lambda *_: False))
    assert trial.outcome is TrialOutcome.FAILED
    assert trial.reason == "the untuned training beside it failed: raised ValueError: 7 units"


@pytest.mark.thorough
@pytest.mark.parametrize("pruner", ["median", "successive-halving", "hyperband"])
def test_a_training_that_learns_worse_is_ended_early(pruner, tmp_path):
    trainings = SimulatedTrainings()
    search, _ = searched(
        trainings, tmp_path, {"learning_rate": RATES}, pruner=pruner, planned=16, sampler="random"
    )
    pruned = [one for one in search.found.trials if one.outcome is TrialOutcome.PRUNED]
    assert pruned
    assert all(one.figure is None and "worse than others" in one.reason for one in pruned)
    alone = [one for one in search.found.trials if one.outcome is not TrialOutcome.MEASURED]
    assert len(trainings.runs) == 2 * len(search.found.trials) - len(alone)
    assert search.best_values()


@pytest.mark.parametrize(
    ("units", "outcome"), [(7, TrialOutcome.FAILED), (9, TrialOutcome.OUT_OF_MEMORY)]
)
def test_a_failure_is_a_row_with_its_reason_and_the_search_goes_on(units, outcome, tmp_path):
    events = []
    search, _ = searched(
        SimulatedTrainings(), tmp_path, {"units": [units, 16, 32]}, observer=events.append
    )
    [failed] = [one for one in search.found.trials if one.outcome is outcome]
    assert failed.values == {"options.units": units}
    assert failed.reason == "raised ValueError: 7 units"
    assert {one.values["options.units"] for one in search.found.trials} == {
        units,
        16,
    }  # 32 is untuned
    assert [one for one in events if not isinstance(one, str)] == search.found.trials


def test_few_values_are_tried_once_each(tmp_path):
    search, _ = searched(SimulatedTrainings(), tmp_path, {"units": [16, 32]}, planned=50)
    assert values_of(search) == [{"options.units": 16}]
    assert "not tried" in search.result.why_ended


def test_an_option_whose_name_is_quoted_in_a_path_keeps_its_name():
    values = {'options."größe"': 3, "plugins.l2.rate": 1}
    assert values_below(values, "options") == {"größe": 3}


def test_what_is_as_it_was_is_no_change(tmp_path):
    ranges = {"units": [8, 32], "learning_rate": RATES}
    search = make_value_search(SimulatedTrainings(), tmp_path, ranges)
    search.found.trials = [
        SettingsTrial(
            values={"options.units": 32, "options.learning_rate": 0.01}, figure=2.0,
            outcome=TrialOutcome.MEASURED,
        )
    ]  # fmt: skip
    assert search.best_values() == {"options.learning_rate": 0.01}


@pytest.fixture
def storage(tmp_path):
    return open_storage(f"sqlite:///{tmp_path}/studies.sqlite")


@pytest.mark.thorough
def test_ctrl_c_keeps_the_best_and_a_resume_makes_the_rest(tmp_path, storage):
    options = {"learning_rate": RATES}
    stopped, _ = searched(SimulatedTrainings(interrupt_at=8), tmp_path, options, storage=storage)
    assert 0 < len(stopped.found.trials) < 12
    [record] = read_searches(tmp_path)
    assert record.seconds == pytest.approx(sum(one.seconds for one in stopped.found.trials))
    resumed, _ = searched(
        SimulatedTrainings(), tmp_path, options, storage=storage,
        log=SearchLog.open(tmp_path / "search", "here", {"CPU": "one"}),
    )  # fmt: skip
    assert resumed.found.trials[: len(stopped.found.trials)] == stopped.found.trials
    assert len(resumed.found.trials) == 12


@pytest.mark.thorough
def test_a_second_search_begins_from_the_first_and_makes_its_own_trials(tmp_path, storage):
    options = {"learning_rate": RATES, "units": [16, 7]}
    first, _ = searched(SimulatedTrainings(), tmp_path, options, planned=6, storage=storage)
    log = SearchLog.open(tmp_path / "second", "here", {"CPU": "one"})
    second, _ = searched(
        SimulatedTrainings(), tmp_path, options, log=log, planned=3, storage=storage
    )
    kept = [one for one in second.found.trials if one.kept_from]
    # what failed may have been the machine's doing
    assert [one.values for one in kept] == [
        one.values for one in first.found.trials if one.outcome.is_lasting
    ]
    assert len([one for one in second.found.trials if not one.kept_from]) == 3
    assert list(log.begun_from) == ["search"]
    third, _ = searched(
        SimulatedTrainings(), tmp_path / "third", options, planned=3, storage=storage,
        study={"fresh": True},
    )  # fmt: skip
    assert not any(one.kept_from for one in third.found.trials)


def test_trials_of_a_search_that_was_killed_are_tried_again(tmp_path, storage):
    _, study = searched(SimulatedTrainings(), tmp_path, {"units": [16, 48]}, storage=storage,
                        planned=0)  # fmt: skip
    asked = study._study.ask()
    lost = asked.suggest_categorical("options.units", (16, 48))
    again, _ = searched(
        SimulatedTrainings(), tmp_path, {"units": [16, 48]}, storage=storage, planned=1,
        log=SearchLog.open(tmp_path / "search", "here", {"CPU": "one"}),
    )  # fmt: skip
    assert values_of(again) == [{"options.units": lost}]


def joined(tmp_path, name, trainings, **given):
    """The search of a process, which shares the storage of the folder."""
    return searched(
        trainings, tmp_path / name, {"learning_rate": RATES}, study={"shared": True},
        sampler="random", log=SearchLog.open(tmp_path / name / f"search-{name}", "here", {}),
        storage=open_storage(f"sqlite:///{tmp_path}/shared.db"), **given,
    )  # fmt: skip


@pytest.mark.thorough
def test_searches_of_one_storage_make_the_planned_trials_together(tmp_path, monkeypatch):
    first, _ = joined(tmp_path, "a", SimulatedTrainings(interrupt_at=3), planned=4)
    made = len(first.found.trials)
    assert 1 <= made < 4
    monkeypatch.setattr("platform.node", lambda: "node-b")
    second, study = joined(tmp_path, "b", SimulatedTrainings(), planned=4)
    assert [bool(one.machine) for one in second.found.trials] == made * [True] + (4 - made) * [
        False
    ]
    shared = study.shared()
    assert (sorted(shared.made.values()), shared.under_way) == (sorted([made, 4 - made]), 0)


def test_a_trial_that_was_freed_meanwhile_is_lost_and_its_search_goes_on(tmp_path):
    search, study = joined(tmp_path, "a", SimulatedTrainings(), planned=0)
    attempts, make = [], study.make

    def freed_once(attempt):
        def attempted(asked):
            attempts.append(asked)
            if len(attempts) == 1:
                study._study.tell(asked.trial.number, state=TrialState.FAIL)
                assert asked.report(0.5, 0)
            return attempt(asked)

        return make(attempted)

    study.make, study.planned = freed_once, 2
    search.try_values(study)
    assert len(attempts) == 3
    assert study.count() == 2


KILLED = """
import os, signal, sys, time
from pathlib import Path
from support.simulated_settings import RATES, SimulatedTrainings, searched
from tfopt_core.tuning import storage
storage.HEARTBEAT_SECONDS = 1
folder = Path(sys.argv[1])
_, study = searched(
    SimulatedTrainings(), folder / "a", {"learning_rate": RATES}, study={"shared": True},
    sampler="random", storage=storage.open_storage(f"sqlite:///{folder}/shared.db"), planned=0,
)
def attempt(asked):
    print(asked.values["options.learning_rate"], flush=True)
    time.sleep(1)  # a thread writes the first sign of life
    os.kill(os.getpid(), signal.SIGKILL)
study.make(attempt)
"""


@pytest.mark.thorough
@pytest.mark.promise(53, injected="SIGKILL of a process in its trial, with a beat each second")
def test_the_values_of_a_process_that_was_killed_are_tried_by_another(tmp_path, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    lost = {"options.learning_rate": float(done.stdout)}
    monkeypatch.setattr("tfopt_core.tuning.storage.HEARTBEAT_SECONDS", 1)
    search, study = joined(tmp_path, "b", SimulatedTrainings(), planned=1)
    assert search.found.trials == []  # it may be alive
    until = time.monotonic() + 20
    while not study.has_room() and time.monotonic() < until:
        time.sleep(0.5)
    search.try_values(study)
    assert values_of(search) == [lost]
    assert study.shared().under_way == 0


def test_a_storage_that_is_lost_ends_the_search_with_its_name(tmp_path):
    search, study = joined(tmp_path, "a", SimulatedTrainings(), planned=0)
    study.planned = 2
    (tmp_path / "shared.db").write_bytes(b"no database at all, " * 200)
    with pytest.raises(StoreError, match=r'the storage "sqlite:.*shared.db" cannot be used: '):
        search.try_values(study)


def test_the_budget_ends_it_and_says_so(tmp_path):
    search, _ = searched(SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, budget=60.0)
    assert len(search.found.trials) < 12
    assert "--budget" in search.result.why_ended


def settings_of_a_plugin(trainings, folder):
    """A search by time over the parts of a batch, which stands at 4."""
    name = "gradient-accumulation"
    info = describe_plugin(name, find(name, registrations()).load())
    return searched(
        trainings, folder, {}, objective="time", stack=(plugin(name, steps=4),), installed=(info,)
    )[0]


def test_by_time_the_settings_of_a_plugin_are_searched_on_all_of_the_data(tmp_path):
    trainings = SimulatedTrainings()
    search = settings_of_a_plugin(trainings, tmp_path)
    [key] = [one.key for one in search.space]
    by_steps = {one.values[key]: one.figure for one in search.found.trials}
    assert by_steps[2] > 1 > by_steps[8]
    assert search.best_values() == {key: 2}
    assert not any(aside for _, aside, _ in trainings.runs)


def test_by_time_a_plugin_that_changes_the_training_is_refused(tmp_path):
    trainings = SimulatedTrainings(equivalence="changes")
    search = settings_of_a_plugin(trainings, tmp_path)
    assert {one.outcome for one in search.found.trials} == {TrialOutcome.REFUSED}
    assert 'changes the training, which "time" may not' in search.found.trials[0].reason
    assert trainings.runs == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("measure.quality.metric", "measure.target.metric"),) * 2,
        (("workload.options.learning_rate",), ("tune.options.learning_rate",)),
    ],
)
def test_what_is_wrong_with_the_recipe_itself_ends_the_search(wrong, named, tmp_path, monkeypatch):
    search = make_value_search(SimulatedTrainings(), tmp_path, {"learning_rate": RATES})
    reading = search.maker.tune.request.reading
    problems = [reading.problem(path, "there is none") for path in wrong]
    monkeypatch.setattr(TrialMaker, "prepared", Mock(side_effect=RecipeError(problems)))
    with pytest.raises(RecipeError) as raised:
        search.search()
    assert tuple(problem.path for problem in raised.value.problems) == named


def test_ctrl_c_while_a_storage_is_waited_for_interrupts_the_search_of_settings(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(ValueSearch, "study", Mock(side_effect=KeyboardInterrupt))
    search = make_value_search(SimulatedTrainings(), tmp_path, {"learning_rate": RATES})
    search.search()
    assert search.result.interrupted
    assert "--resume" in search.result.why_ended
    assert not search.found.best


def test_without_time_for_a_trial_no_value_is_called_worse(tmp_path):
    search = make_value_search(SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, budget=0.0)
    search.search()
    assert search.found.statement.startswith("no value was tried: the search's part of the budget")


def test_what_machines_share_names_the_study_and_what_differs_between_them_does_not():
    facts = {"CPU": "x", "Python": "3.11", 'code of plugin "l2"': "1", 'code of plugin "my"': "2"}

    def shared(root="/a", plugins=("l2",), **changes):
        return study_facts({**facts, f'"{root}/train.py"': "h", **changes}, root, set(plugins))

    assert shared() == shared("/b", CPU="y", **{'code of plugin "my"': "3"})
    others = (shared(Python="3.12"), shared(plugins=("l2", "my")), shared(**{'"/a/train.py"': "i"}))
    assert shared() not in others


def test_a_study_is_named_by_the_untuned_values_and_the_ranges(tmp_path):
    def name(folder, ranges):
        return make_value_search(SimulatedTrainings(), tmp_path / folder, ranges).study().name

    first = name("a", {"units": [8, 32]})
    assert first == name("b", {"units": [8, 32]})
    assert first != name("c", {"units": [8, 64]})
