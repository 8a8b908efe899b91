"""A search of one command and those before it: which of their trials it begins from."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest
from support.simulated_search import plugin
from support.simulated_settings import RATES, SimulatedTrainings, make_context

from tfopt_core.recipe import Recipe, WorkloadSpec
from tfopt_core.tuning.session import TuneSession, _nothing
from tfopt_core.tuning.winner import proof_recipe

pytest.importorskip("optuna", reason="the tune extra is not installed")


def searched(tmp_path, name, *, trials, fresh=False):
    """The result of a search by quality, which tries no plugin, with its number of trainings."""
    trainings = SimulatedTrainings()
    (tmp_path / "train.py").write_text("def build(): pass\n")
    tune = make_context(trainings, tmp_path, {"learning_rate": RATES}, budget=1e4, fresh=fresh)
    recipe = tune.request.recipe
    recipe = attrs.evolve(recipe, tune=attrs.evolve(recipe.tune, trials=trials))
    tune.request = attrs.evolve(tune.request, recipe=recipe, folder=tmp_path / "tune" / name)
    return TuneSession(tune=tune).go()


def test_a_search_by_quality_begins_from_the_trainings_of_an_earlier_one(tmp_path):
    first = searched(tmp_path, "20261123-1", trials=5)
    assert len(first.settings.trials) == 1 + 5  # the untuned training is one of them
    second = searched(tmp_path, "20261123-2", trials=3)
    assert second.begun_from == (first.id,)
    kept = [one for one in second.settings.trials if one.kept_from]
    assert [one.values for one in kept] == [one.values for one in first.settings.trials]
    assert len(second.settings.trials) == len(kept) + 3
    third = searched(tmp_path, "20261123-3", trials=3, fresh=True)
    assert third.begun_from == ()
    assert not any(one.kept_from for one in third.settings.trials)


def test_the_paths_of_a_winner_that_is_written_elsewhere_start_where_the_recipe_lies(tmp_path):
    workload = WorkloadSpec(factory="train.py:build")
    recipe = Recipe(name="r", workload=workload, path=tmp_path / "recipe.toml")
    proof = proof_recipe(
        recipe, (plugin("cache"),), objective="time", path=tmp_path / "out" / "x.toml", seconds=60.0
    )
    assert proof.directory == tmp_path
    assert proof.path.name == "x.toml"


@pytest.mark.parametrize(
    ("tried", "settings", "ended", "said"),
    [
        (["a"], None, "", "nothing helps here: 1 plugin was tried and does not stay; that took"),
        (["a", "b", "a"], None, "", "nothing helps here: 2 plugins were tried and none stays"),
        (["a"], SimpleNamespace(proof=object()), "", "the fresh pairs confirm no value, and 1"),
        ([], None, "", "no installed plugin is worth trying here"),
        ([], None, "no time was left", "nothing was tried: no time was left; that took 60 s"),
        ([("a", "b")], None, "", "nothing helps here: 2 plugins were tried and none stays"),
    ],
)
def test_a_search_without_a_gain_says_what_was_tried(tried, settings, ended, said):
    trials = [SimpleNamespace(plugins=tuple(names)) for names in tried]
    search = SimpleNamespace(trials=trials, elapsed=lambda: 60.0, why_ended=ended)
    assert said in _nothing(search, settings)
