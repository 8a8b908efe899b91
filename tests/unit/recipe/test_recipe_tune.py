"""The table `[tune]`: what it takes, and what it refuses."""

from __future__ import annotations

import pytest

from tfopt_core.hooks.installed.schema import recipe_schema
from tfopt_core.recipe.model import TuneSpec
from tfopt_core.recipe.reading import read_recipe

HEAD = '[workload]\nuse = "flights"\n'


def reading_of(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(HEAD + text)
    return read_recipe(path)


def test_objective_and_budget_are_read(tmp_path):
    recipe = reading_of(tmp_path, '[tune]\nobjective = "memory"\nbudget = "1h"\n').require()
    assert recipe.tune == TuneSpec(objective="memory", budget_seconds=3600.0)
    assert recipe.to_dict()["tune"] == {"objective": "memory", "budget": 3600.0}


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ('sampler = "tep"', 'did you mean "tpe"?'),
        ('sampler = "cma"', '"qmc"'),
        ('pruner = "medain"', 'did you mean "median"?'),
        ("trials = 0", "at least 1"),
        ("options = [1, 2]", "expected a table"),
    ],
)
def test_a_wrong_value_is_an_error_at_its_key(line, known, tmp_path):
    [problem] = reading_of(tmp_path, f"[tune]\n{line}\n").problems
    assert problem.path == f"tune.{line.split()[0]}"
    assert known in f"{problem.message}; {problem.mend}"


@pytest.mark.parametrize(
    "line",
    ['sampler = "random"', 'pruner = "none"', "trials = 20", "options = { width = [8, 16] }"],
)
def test_each_key_of_settings_asks_for_their_search(line, tmp_path):
    assert reading_of(tmp_path, f"[tune]\n{line}\n").require().tune.searches_settings
    assert not reading_of(tmp_path, '[tune]\nbudget = "1h"\n').require().tune.searches_settings


def test_an_unknown_key_is_an_error(tmp_path):
    [problem] = reading_of(tmp_path, '[tune]\nbudgt = "1h"\n').problems
    assert 'did you mean "budget"?' in problem.mend


def test_the_table_does_not_change_what_is_measured(tmp_path):
    with_it = reading_of(tmp_path, '[tune]\nbudget = "1h"\n').require()
    assert with_it.sha256() == reading_of(tmp_path, "").require().sha256()


def test_editors_know_the_table():
    properties = recipe_schema({}, {})["properties"]["tune"]["properties"]
    assert properties["objective"]["enum"] == ["time", "memory", "time-to-target"]
    assert properties["budget"]["default"] == 900.0
    assert properties["sampler"]["enum"] == ["tpe", "random", "qmc"]
