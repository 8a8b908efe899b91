"""The search of settings of one command: its metric, its errors, and what its proof leaves."""

from __future__ import annotations

from unittest.mock import Mock

import attrs
import pytest
from support.simulated_settings import RATES, SimulatedTrainings, make_context
from support.tuned import make_tuned

from tfopt_core.errors import RecipeError
from tfopt_core.tuning.search_log import SearchLog, read_searches
from tfopt_core.tuning.settings_session import SettingsSession
from tfopt_core.tuning.study import study_facts, study_name

pytest.importorskip("optuna", reason="the tune extra is not installed")


@pytest.fixture
def session_of(tmp_path):
    def make(objective, options):
        trainings = SimulatedTrainings()
        tune = make_context(trainings, tmp_path, options, objective, budget=1e4)
        tune.log = SearchLog.begin(tmp_path / "search", "here", {"CPU": "one"})
        return SettingsSession(tune=tune, stack=())

    return make


def bare(objective):
    return make_tuned(objective=objective, proof=None, stack=(), trials=())


def test_values_that_the_fresh_pairs_confirm_are_the_result(session_of):
    session = session_of("quality", {"learning_rate": RATES})
    result = session.proved(session.searched(bare("quality")))
    assert result.settings.metric == "val_accuracy"
    assert result.settings.proof.confirmed
    assert 0.002 < result.tuned_options["learning_rate"] < 0.05
    assert "the search took" in result.statement


def test_values_of_which_none_is_better_need_no_proof(session_of):
    session = session_of("quality", {"units": [32, 128]})
    result = session.proved(session.searched(bare("quality")))
    assert result.settings.best == {}
    assert result.settings.proof is None
    assert "nothing helps here" in result.statement


def test_two_metrics_that_the_training_does_not_report_are_two_problems(session_of, monkeypatch):
    session = session_of("time-to-target", {"learning_rate": RATES})
    problems = [
        session.tune.request.reading.problem(
            f"measure.{key}.metric", 'the training reports no "acc"'
        )
        for key in ("quality", "target")
    ]
    monkeypatch.setattr(SettingsSession, "_prepared", Mock(side_effect=RecipeError(problems)))
    with pytest.raises(RecipeError) as raised:
        session._know_the_metric()
    assert raised.value.problems == tuple(problems)


def test_nothing_to_search_by_quality_is_an_error_at_its_key(session_of):
    with pytest.raises(RecipeError) as caught:
        session_of("quality", {}).searched(bare("quality"))
    [problem] = caught.value.problems
    assert problem.mend == "add [tune.options]"


def test_a_resume_draws_what_was_not_drawn_before(session_of, tmp_path):
    session = session_of("quality", {"learning_rate": RATES})
    tune = session.tune
    recipe = tune.request.recipe
    spec = attrs.evolve(recipe.tune, sampler="random", pruner="none", trials=28)
    tune.request = attrs.evolve(tune.request, recipe=attrs.evolve(recipe, tune=spec))
    # more trials than draws in a row that may be repeats
    tune.runner.interrupt_at = 25
    stopped = session.searched(bare("quality"))
    assert stopped.interrupted
    assert len(stopped.settings.trials) == 25
    [record] = read_searches(tmp_path)
    tune.log = SearchLog.resume(tmp_path / "search", record)
    tune.runner.interrupt_at = None
    trials = session.searched(bare("quality")).settings.trials
    assert len([one for one in trials if one.values]) == 28


def test_ctrl_c_while_a_storage_is_waited_for_interrupts_the_search_of_settings(
    session_of, monkeypatch
):
    monkeypatch.setattr(SettingsSession, "_study", Mock(side_effect=KeyboardInterrupt))
    found = session_of("quality", {"learning_rate": RATES}).searched(bare("quality"))
    assert found.interrupted
    assert "--resume" in found.why_ended
    assert not found.settings.best


def test_without_time_for_a_trial_no_value_is_called_worse(session_of):
    session = session_of("time-to-target", {"learning_rate": RATES})
    session.tune.budget = 0.0
    statement = session.searched(bare("time-to-target")).settings.statement
    assert statement.startswith("no value was tried: the search's part of the budget")


def test_what_machines_share_names_the_study_and_what_differs_between_them_does_not():
    facts = {"CPU": "x", "Python": "3.11", 'code of plugin "l2"': "1", 'code of plugin "my"': "2"}

    def name(root="/a", plugins=("l2",), place="p", ranges=("options.units",), **changes):
        given = study_facts({**facts, f'"{root}/train.py"': "h", **changes}, root, set(plugins))
        return study_name(given, place, dict.fromkeys(ranges))

    assert name() == name("/b", CPU="y", **{'code of plugin "my"': "3"})
    others = (
        name(Python="3.12"), name(plugins=("l2", "my")), name(place="q"), name(ranges=()),
        name(**{'"/a/train.py"': "i"}),
    )  # fmt: skip
    assert name() not in others
