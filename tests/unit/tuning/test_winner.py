"""The recipe of a winner: readable, commented, and written only where the proof allows it."""

from __future__ import annotations

import tomllib

import attrs
import pytest
from support.report_results import make_comparison, make_results
from support.tuned import make_tuned

from tfopt_core.diagnosis.recipe_seal import is_unchanged
from tfopt_core.recipe import MeasureSpec, Recipe, WorkloadSpec, read_recipe
from tfopt_core.records.verdict import Verdict
from tfopt_core.tuning.repayment import trainings_to_repay
from tfopt_core.tuning.winner import why_not_written, winner_text


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
    assert "in, alone: 1.30x with it" in text
    assert "no gain" in text
    assert "A CPU" in text
    assert is_unchanged(text)


def test_what_was_tried_and_left_out_stands_in_it_switched_off(tmp_path):
    data = tomllib.loads(winner_text(make_tuned(), recipe(tmp_path), tmp_path))
    assert {one["use"]: one.get("enabled", True) for one in data["plugins"]} == {
        "xla": True, "prefetch": True, "cache": False, "remat": False
    }  # fmt: skip


def test_the_headline_is_that_of_the_fresh_pairs(tmp_path):
    tuned = make_tuned()
    text = " ".join(winner_text(tuned, recipe(tmp_path), tmp_path).replace("\n# ", " ").split())
    assert tuned.proof.comparison.headline in text
    unproved = attrs.evolve(tuned, proof=None)
    assert "Not proved" in winner_text(unproved, recipe(tmp_path), tmp_path)


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


def test_a_search_is_repaid_after_as_many_trainings_as_its_cost_takes():
    assert trainings_to_repay(400.0, 5.0) == 80
    assert trainings_to_repay(3.0, 5.0) == 1
    assert trainings_to_repay(400.0, None) is None
