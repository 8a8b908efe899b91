"""The recipe of a winner, and which trials of earlier searches a search begins from."""

import tomllib

import attrs
import pytest
from support.report_results import make_comparison, make_results
from support.simulated_search import plugin
from support.simulated_settings import RATES, SimulatedTrainings, make_context
from support.tuned import make_trial, make_tuned

from tfopt_core.diagnosis.draft import is_unchanged
from tfopt_core.recipe.model import BaselineSpec, MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.statistics.results import Verdict
from tfopt_core.trials.workload_options import baseline_recipe, options_in_stack
from tfopt_core.tuning.results import SettingsSearch, TrialOutcome
from tfopt_core.tuning.search import GreedySearch
from tfopt_core.tuning.session import _nothing
from tfopt_core.tuning.session import search as search_and_prove
from tfopt_core.tuning.winner import proof_recipe, why_not_written, winner_text


def recipe(folder, **workload):
    spec = WorkloadSpec(**(workload or {"factory": "mine.py:build", "epochs": 3}))
    return Recipe(
        name="mine", workload=spec, measure=MeasureSpec(pairs=4), path=folder / "recipe.toml"
    )


def test_the_winner_can_be_read_and_says_why_each_plugin_is_in(tmp_path):
    text = winner_text(make_tuned(), recipe(tmp_path), tmp_path)
    path = tmp_path / "mine.tuned.toml"
    path.write_text(text)
    reading = read_recipe(path)
    assert reading.problems == ()
    assert [one.use for one in reading.entries] == ["xla", "prefetch"]
    assert "with xla: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in" in " ".join(text.split())
    assert "no gain" in text
    assert "A CPU" in text
    assert is_unchanged(text)
    stopped = make_results(interrupted=True)
    for proof in (None, stopped):
        text = winner_text(make_tuned(proof=proof), recipe(tmp_path), tmp_path)
        assert "# Not proved: interrupted before the fresh pairs were done" in text


SETTINGS = SettingsSearch(
    sampler="tpe", pruner="none", planned=5, untuned={"options.units": 8},
    best={"options.units": 16, "options.batch_size": 64, "plugins.xla.jit": False},
)  # fmt: skip


def test_tuned_options_stand_in_the_workload_with_what_they_replace(tmp_path):
    result = make_tuned(settings=SETTINGS, objective="time-to-target")
    assert why_not_written(result) == ""
    text = winner_text(result, recipe(tmp_path), tmp_path)
    data = tomllib.loads(text)
    assert data["workload"]["options"] == {"units": 16}
    assert data["workload"]["batch_size"] == 64
    flat = " ".join(text.replace("#", " ").split())
    assert "units = 16, in place of 8." in flat
    assert "jit = false." in flat
    assert "Measure it again with `tfopt apply`" in flat
    assert result.proof.comparison.headline in flat
    assert "Not proved" not in flat


@pytest.mark.parametrize(
    ("changes", "baseline"),
    [
        ({"options": {"units": 8}, "batch_size": 32}, {"batch_size": 32, "options": {"units": 8}}),
        ({"batch_size": 32}, {"batch_size": 32, "defaults": ["units"]}),
        ({}, {"defaults": ["units", "batch_size"]}),
    ],
)
def test_the_baseline_of_the_written_recipe_is_the_training_as_it_was(changes, baseline, tmp_path):
    before = recipe(tmp_path, factory="mine.py:build", **changes)
    before = attrs.evolve(before, measure=attrs.evolve(before.measure, seconds=8.0))
    path = tmp_path / "mine.tuned.toml"
    result = make_tuned(settings=SETTINGS, proof=None, objective="time-to-target")
    path.write_text(winner_text(result, before, tmp_path))
    written = read_recipe(path).require()
    assert written.measure.baseline.to_dict() == baseline
    again = baseline_recipe(written).workload
    assert (again.options, again.batch_size) == (
        before.workload.options, before.workload.batch_size
    )  # fmt: skip
    [stands] = options_in_stack(written)
    assert stands.plugin.values == {"units": 16, "batch_size": 64}


def test_a_recipe_that_is_tuned_again_loses_the_baseline_that_it_had(tmp_path):
    before = recipe(tmp_path, factory="mine.py:build", options={"units": 8})
    measure = attrs.evolve(before.measure, baseline=BaselineSpec(options={"units": 4}))
    before = attrs.evolve(before, measure=measure)
    written = tomllib.loads(winner_text(make_tuned(), before, tmp_path))
    assert "baseline" not in written["measure"]
    proof = proof_recipe(before, make_tuned(), path=tmp_path / "t.toml", seconds=9.0)
    assert proof.measure.baseline is None
    tuned = make_tuned(settings=SETTINGS, proof=None, objective="time-to-target")
    written = tomllib.loads(winner_text(tuned, before, tmp_path))
    assert written["measure"]["baseline"] == {"options": {"units": 8}, "defaults": ["batch_size"]}


def test_options_that_the_fresh_pairs_refute_get_no_recipe():
    nothing = attrs.evolve(SETTINGS, best={})
    result = make_tuned(settings=nothing, stack=(), objective="time-to-target")
    assert why_not_written(result).startswith("the fresh pairs do not confirm the search: ")
    assert why_not_written(attrs.evolve(result, proof=None)) == "nothing that was tried helps here"


def test_a_search_that_is_interrupted_does_not_say_that_nothing_helps():
    stopped = make_tuned(settings=None, proof=None, stack=(), interrupted=True)
    assert why_not_written(stopped) == "the search was interrupted before anything helped"


def test_what_was_tried_and_left_out_stands_in_it_switched_off(tmp_path):
    data = tomllib.loads(winner_text(make_tuned(), recipe(tmp_path), tmp_path))
    assert {one["use"]: one.get("enabled", True) for one in data["plugins"]} == {
        "xla": True, "prefetch": True, "cache": False, "remat": False
    }  # fmt: skip


def test_paths_are_those_of_the_folder_that_it_lies_in(tmp_path):
    (tmp_path / "sub").mkdir()
    moved = tomllib.loads(winner_text(make_tuned(), recipe(tmp_path), tmp_path / "sub"))
    assert moved["workload"]["factory"] == "../mine.py:build"
    script = recipe(tmp_path, script="train.py")
    moved = tomllib.loads(winner_text(make_tuned(), script, tmp_path / "sub"))
    assert moved["workload"] == {"script": "../train.py", "folder": ".."}


@pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.NO_DIFFERENCE, Verdict.WORSE])
def test_a_winner_that_its_fresh_pairs_refute_gets_no_recipe(verdict):
    refuted = make_results(comparison=make_comparison(verdict=verdict, statement="it is not"))
    assert "it is not" in why_not_written(make_tuned(proof=refuted))
    assert why_not_written(make_tuned()) == ""
    assert "nothing" in why_not_written(make_tuned(stack=(), proof=None))


pytest.importorskip("optuna", reason="the tune extra is not installed")


def test_the_paths_of_a_winner_that_is_written_elsewhere_start_where_the_recipe_lies(tmp_path):
    tuned = make_tuned(stack=(plugin("cache"),))
    path = tmp_path / "out" / "x.toml"
    proof = proof_recipe(recipe(tmp_path), tuned, path=path, seconds=60.0)
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
