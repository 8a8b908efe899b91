"""The search of settings of one command: its metric, its errors, and what its proof leaves."""

from __future__ import annotations

import attrs
import pytest
from support.simulated_settings import RATES, SimulatedTrainings, make_runner
from support.tuned import make_tuned

from tfopt_core.errors import RecipeError
from tfopt_core.tuning.journal import Journal
from tfopt_core.tuning.settings_session import SettingsSession

pytest.importorskip("optuna", reason="the tune extra is not installed")


@pytest.fixture
def session_of(tmp_path):
    def make(objective, options):
        trainings = SimulatedTrainings()
        runner = make_runner(trainings, tmp_path, options, objective)
        return SettingsSession(
            request=runner.request, objective=objective, stack=(), own={}, installed=(),
            runner=trainings, deadline=trainings.deadline,
            journal=Journal.begin(tmp_path / "search", "here", {"CPU": "one"}),
            elapsed=lambda: trainings.now, budget=1e4, seed=3, observer=lambda event: None,
            now=lambda: trainings.now,
        )  # fmt: skip

    return make


def bare(objective):
    return make_tuned(objective=objective, proof=None, stack=(), trials=(), saved_seconds=None)


@pytest.mark.parametrize("objective", ["quality", "time-to-target"])
def test_values_that_the_fresh_pairs_confirm_are_the_result(objective, session_of):
    session = session_of(objective, {"learning_rate": RATES})
    result = session.proved(session.searched(bare(objective)))
    assert result.settings.metric == "val_accuracy"
    assert result.settings.proof.confirmed
    assert 0.002 < result.tuned_options["learning_rate"] < 0.05
    assert (result.saved_seconds is not None) is (objective == "time-to-target")
    assert "the search took" in result.statement


def test_options_that_the_fresh_pairs_refute_are_as_they_were(session_of):
    session = session_of("time-to-target", {"learning_rate": [0.001, 0.0009]})
    result = session.searched(bare("time-to-target"))
    chosen = attrs.evolve(result.settings, best={"options.learning_rate": 0.0009})
    proved = session.proved(attrs.evolve(result, settings=chosen))
    assert not proved.settings.proof.confirmed
    assert proved.tuned_options == {}
    assert "do not confirm" in proved.settings.statement
    assert proved.stack == session.stack


def test_values_of_which_none_is_better_need_no_proof(session_of):
    session = session_of("quality", {"units": [32, 128]})
    result = session.proved(session.searched(bare("quality")))
    assert result.settings.best == {}
    assert result.settings.proof is None
    assert "nothing helps here" in result.statement


def test_nothing_to_search_by_quality_is_an_error_at_its_key(session_of):
    with pytest.raises(RecipeError) as caught:
        session_of("quality", {}).search()
    [problem] = caught.value.problems
    assert problem.mend == "add [tune.options]"
