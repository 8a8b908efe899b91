"""What the guide says of a search's JSON and of its outcomes: all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest
from support.forked_command import HASTY
from support.real_process import tfopt

from tfopt_core.recipe import read_recipe
from tfopt_core.records.tuning import BoundStep, NotTried, StackTrial, TrialOutcome, TuneResult
from tfopt_core.training.factory import load_workload
from tfopt_core.training.hypermodel import HyperModelWorkload
from tfopt_core.tuning.search import FORWARD_SHARE, SEARCH_SHARE

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", [TuneResult, StackTrial, BoundStep, NotTried])
def test_every_field_of_the_json_is_documented(part: type) -> None:
    json_part = GUIDE.partition("## Its JSON")[2]
    words = set(re.findall(r"`(\w+)(?:\[\])?`", json_part))
    assert {field.name for field in attrs.fields(part)} <= words


def test_every_outcome_is_documented() -> None:
    assert all(outcome.value in GUIDE for outcome in TrialOutcome)


def test_the_shares_of_the_budget_are_those_of_the_search() -> None:
    assert f"{FORWARD_SHARE:.0%}" in GUIDE
    assert f"{SEARCH_SHARE:.0%}" in GUIDE


def model_for_keras_tuner(folder: Path) -> Path:
    """The folder with the files of the guide's example."""
    part = GUIDE.partition("## A model for Keras Tuner")[2].partition("\n## ")[0]
    for language, file in (("python", "mine.py"), ("toml", "recipe.toml")):
        [block] = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
        assert block.startswith(f"# {file}\n")
        (folder / file).write_text(block)
    return folder / "recipe.toml"


@pytest.mark.tensorflow
def test_the_model_for_keras_tuner_loads_and_declares_what_its_other_branches_do(
    tmp_path: Path,
) -> None:
    pytest.importorskip("keras_tuner", reason="Keras Tuner is not installed")
    workload = load_workload(read_recipe(model_for_keras_tuner(tmp_path)).require())
    assert isinstance(workload, HyperModelWorkload)
    assert {one.name for one in workload.explore()[0]} == {
        "layers", "units_0", "units_1", "optimizer", "momentum", "rate",
    }  # fmt: skip
    assert len(workload.build_model().layers) == 2


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.tensorflow
def test_the_model_for_keras_tuner_is_trained_and_tuned(tmp_path: Path) -> None:
    pytest.importorskip("keras_tuner", reason="Keras Tuner is not installed")
    pytest.importorskip("optuna", reason="the tune extra is not installed")
    (tmp_path / "pyproject.toml").touch()
    model_for_keras_tuner(tmp_path)
    trained = tfopt("train", "recipe.toml", cwd=tmp_path)
    assert trained.code == 0, trained.err
    search = ("tune", "recipe.toml", "--budget", "2m", "--json", "found.json")
    done = tfopt(*search, cwd=tmp_path, before=HASTY)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "found.json").read_text())
    drawn = [one["values"] for one in found["settings"]["trials"] if one["values"]]
    assert drawn
    for values in drawn:
        assert ("options.rate" in values) is (values["options.optimizer"] == "adam")
    # which values are best depends on the machine
    if found["written"]:
        assert 'data = "mine.py:load_data"' in (tmp_path / found["written"]).read_text()
        again = tfopt("train", found["written"], cwd=tmp_path)
        assert again.code == 0, again.err
