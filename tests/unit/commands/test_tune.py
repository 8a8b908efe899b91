"""What `tfopt tune` checks before anything runs, and writes in the end."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import attrs
import pytest
from support.tuned import make_tuned

from tfopt_core.commands.request import RESULTS
from tfopt_core.commands.search import objective_of, shared_storage, tune, written
from tfopt_core.errors import InputError, RecipeError
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.report.style.console import make_console
from tfopt_core.store.lock import measuring_alone
from tfopt_core.tuning.context import TuneOptions

RECIPE = '[workload]\nuse = "flights"\nepochs = 1\n'
FACTORY, SCRIPT = 'factory = "train.py:build"', 'script = "train.py"'
TARGET = '[measure]\ntarget = { metric = "val_accuracy", at_least = 0.9 }\n'
RATES = "options = { rate = { low = 1e-4, high = 1e-2 } }"


def request_of(tmp_path, workload, tune, measure=""):
    path = tmp_path / "recipe.toml"
    path.write_text(f"[workload]\n{workload}\n{measure}[tune]\n{tune}\n")
    reading = read_recipe(path)
    return SimpleNamespace(recipe=reading.require(), reading=reading)


@pytest.mark.parametrize(
    ("workload", "tune", "path", "mend"),
    [
        (FACTORY, RATES, "tune.options", 'objective = "time-to-target"'),
        (FACTORY, f'objective = "memory"\n{RATES}', "tune.options", "with a measure.target"),
        (FACTORY, 'pruner = "median"', "tune.pruner", "remove it"),
        (SCRIPT, f'objective = "time-to-target"\n{RATES}', "tune.options", "write a factory"),
        (FACTORY, 'objective = "time-to-target"', "tune.objective", "target = {"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_an_error_at_its_key_with_the_mend(
    workload, tune, path, mend, tmp_path
):
    with pytest.raises(RecipeError) as caught:
        objective_of(request_of(tmp_path, workload, tune))
    [problem] = caught.value.problems
    assert problem.path == path
    assert mend in problem.mend


@pytest.mark.parametrize(
    ("tune", "objective"),
    [
        ("trials = 3", "time"),
        ('pruner = "none"', "time"),
        (f'objective = "time-to-target"\n{RATES}', "time-to-target"),
    ],
)
def test_what_can_be_searched_is_accepted(tune, objective, tmp_path):
    assert objective_of(request_of(tmp_path, FACTORY, tune, TARGET)) == objective


def test_without_optuna_the_extra_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    path = tmp_path / "recipe.toml"
    path.write_text(f"{RECIPE}[tune]\ntrials = 3\n")
    with pytest.raises(InputError, match=r"pip install 'tfopt\[tune\]'"):
        tune(TuneOptions(target=str(path)), make_console(quiet=True))


def test_a_storage_needs_a_search_of_settings_and_is_not_begun_afresh(tmp_path):
    asked = TuneOptions(target="r.toml", storage=f"sqlite:///{tmp_path}/log")
    with pytest.raises(InputError, match=r"recipe asks for none; add trials = 20"):
        shared_storage(asked, searches_settings=False)
    with pytest.raises(InputError, match="--fresh begins from nothing"):
        shared_storage(attrs.evolve(asked, fresh=True), searches_settings=True)
    assert shared_storage(TuneOptions(target="r.toml"), searches_settings=False) is None
    assert not (tmp_path / "log").exists()
    no_url = attrs.evolve(asked, storage=str(tmp_path / "search.log"))
    with pytest.raises(InputError, match="--storage: give the URL of a database"):
        shared_storage(no_url, searches_settings=True)


def test_a_password_in_the_storages_address_is_in_no_repr():
    assert "secret" not in repr(TuneOptions(target="r.toml", storage="mysql://me:secret@host/db"))


def test_where_the_winners_recipe_cannot_be_written_is_said_before_anything_runs(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    options = TuneOptions(target=str(path), write_to=tmp_path / "out" / "x.toml")
    with pytest.raises(InputError, match="--write: there is no folder"):
        tune(options, make_console(quiet=True))


def test_a_recipe_that_cannot_be_written_in_the_end_costs_no_result(tmp_path):
    request = request_of(tmp_path, FACTORY, 'objective = "time"')
    changed = tmp_path / "mine.tuned.toml"
    changed.write_text("# mine\n")
    result = written(make_tuned(), request, changed)
    assert result.proof is not None
    assert result.written == ""
    assert "was changed since tfopt wrote it" in result.why_not_written
    assert changed.read_text() == "# mine\n"


def test_a_search_waits_while_another_process_measures_in_the_project(tmp_path, monkeypatch):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr("tfopt_core.report.live.make_phases", Mock(side_effect=Waited))
    options = TuneOptions(target=str(tmp_path / "recipe.toml"))
    with measuring_alone(tmp_path / RESULTS, "another", print), pytest.raises(Waited):
        tune(options, make_console(quiet=True))


class Waited(Exception):
    """The display of what is waited for was opened."""
