"""A search of one command and those before it: which of their trials it begins from."""

from __future__ import annotations

import attrs
import pytest
from support.report_results import make_comparison, make_results
from support.simulated_search import plugin
from support.simulated_settings import RATES, SimulatedTrainings, make_context
from support.tuned import make_trial, make_tuned

from tfopt_core.errors import InputError
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.statistics.results import Verdict
from tfopt_core.tuning.results import TrialOutcome
from tfopt_core.tuning.search import GreedySearch
from tfopt_core.tuning.session import _nothing
from tfopt_core.tuning.session import search as search_and_prove
from tfopt_core.tuning.winner import proof_recipe, why_not_written

pytest.importorskip("optuna", reason="the tune extra is not installed")


def test_the_paths_of_a_winner_that_is_written_elsewhere_start_where_the_recipe_lies(tmp_path):
    workload = WorkloadSpec(factory="train.py:build")
    recipe = Recipe(name="r", workload=workload, path=tmp_path / "recipe.toml")
    proof = proof_recipe(
        recipe, make_tuned(stack=(plugin("cache"),)), path=tmp_path / "out" / "x.toml", seconds=60.0
    )
    assert proof.directory == tmp_path
    assert proof.path.name == "x.toml"


@pytest.mark.parametrize(
    ("tried", "proof", "ended", "said"),
    [
        (["a"], None, "", "nothing helps here: 1 plugin was tried and does not stay; that took"),
        (["a", "b", "a"], None, "", "nothing helps here: 2 plugins were tried and none stays"),
        (["a"], make_results(), "", "the fresh pairs confirm no value, and 1"),
        ([], None, "", "no installed plugin is worth trying here"),
        ([], None, "no time was left", "nothing was tried: no time was left; that took 60 s"),
    ],
)
def test_a_search_without_a_gain_says_what_was_tried(tried, proof, ended, said):
    trials = tuple(make_trial(name, TrialOutcome.NO_GAIN) for name in tried)
    result = make_tuned(trials=trials, proof=proof, why_ended=ended, search_seconds=60.0)
    assert said in _nothing(result)


def search(tmp_path, name, **how):
    """The result of a search that tries no plugin."""
    (tmp_path / "train.py").write_text("def build(): pass\n")
    tune = make_context(SimulatedTrainings(), tmp_path, {"learning_rate": RATES}, **how)
    tune.request = attrs.evolve(tune.request, folder=tmp_path / "tune" / name)
    return search_and_prove(tune)


@pytest.mark.thorough
@pytest.mark.parametrize("verdict", [Verdict.FASTER, Verdict.INCONCLUSIVE])
def test_options_are_proved_as_apply_measures_them_and_stay_only_where_they_are_faster(
    verdict, tmp_path, monkeypatch
):
    measured = []

    def measure(request, **how):
        measured.append(request)
        return make_results(comparison=make_comparison(verdict=verdict))

    monkeypatch.setattr("tfopt_core.tuning.session.measure", measure)
    monkeypatch.setattr(GreedySearch, "go", lambda search: None)
    found = search(tmp_path, "20261123-1")
    [request] = measured
    rate = request.recipe.workload.options["learning_rate"]
    assert 0.002 < rate < 0.05
    assert request.recipe.measure.baseline.options == {"learning_rate": 0.001}
    assert [one.name for one in request.plugins] == ["workload options"]
    if verdict is Verdict.FASTER:
        assert found.tuned_options == {"learning_rate": rate}
        assert "the search took" in found.statement
    else:
        assert found.tuned_options == {}
        assert "do not confirm learning_rate" in found.settings.statement
        assert why_not_written(found).startswith("the fresh pairs do not confirm the search: ")


@pytest.mark.thorough
def test_a_search_begins_from_the_trials_of_an_earlier_one_unless_it_is_to_be_fresh(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tfopt_core.tuning.session.measure", lambda request, **how: make_results())
    monkeypatch.setattr(GreedySearch, "go", lambda search: None)
    first = search(tmp_path, "20261123-1")
    second = search(tmp_path, "20261123-2")
    assert second.begun_from == (first.id,)
    kept = [one for one in second.settings.trials if one.kept_from]
    assert [one.values for one in kept] == [one.values for one in first.settings.trials]
    assert len(second.settings.trials) == len(kept) + 10
    third = search(tmp_path, "20261123-3", fresh=True)
    assert third.begun_from == ()
    assert not any(one.kept_from for one in third.settings.trials)
    with pytest.raises(InputError, match="nothing to resume"):
        search(tmp_path, "20261123-4", resuming=True)
