"""The recipe of a winner: readable, commented, and written only where the proof allows it."""

from __future__ import annotations

import tomllib

import attrs
import pytest
from support.report_results import make_comparison, make_results
from support.tuned import make_tuned

from tfopt_core.diagnosis.draft import is_unchanged
from tfopt_core.recipe.model import BaselineSpec, MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.statistics.results import Verdict
from tfopt_core.trials.workload_options import baseline_recipe, options_in_stack
from tfopt_core.tuning.results import SettingsSearch
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
        ({"options": {"units": 8}, "batch_size": 32},
         {"batch_size": 32, "options": {"units": 8}}),
        ({"batch_size": 32}, {"batch_size": 32, "defaults": ["units"]}),
        ({}, {"defaults": ["units", "batch_size"]}),
    ],
)  # fmt: skip
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
