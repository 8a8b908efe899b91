"""`tfopt tune` of options by quality with real trainings: tried, proved and written."""

from __future__ import annotations

import json

import pytest
from support.forked_command import HASTY
from support.real_process import (
    make_project,
    tfopt,
)
from support.small_workloads import BLOBS

pytest.importorskip("optuna", reason="the tune extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.thorough]

RECIPE = """
    name = "blobs"
    [workload]
    factory = "blobs.py:build"
    epochs = 8
    batch_size = 32
    [workload.options]
    rate = 1e-6
    [tune]
    objective = "quality"
    budget = "6m"
    pruner = "none"
    [tune.options]
    rate = [-1.0, 1e-6, 0.1]
"""


def search_in(folder, *options):
    done = tfopt("tune", "recipe.toml", *options, "--json", "found.json", cwd=folder, before=HASTY)
    assert done.code == 0, done.err
    return done, json.loads((folder / "found.json").read_text())


def test_options_are_searched_by_quality_and_proved_on_the_validation_data(tmp_path):
    folder = make_project(tmp_path / "p", RECIPE, blobs=BLOBS)
    done, found = search_in(folder)
    settings = found["settings"]
    untuned, *others = settings["trials"]
    assert (untuned["values"], len(untuned["epochs"])) == ({}, 8)
    by_rate = {one["values"]["options.rate"]: one for one in others}
    assert set(by_rate) == {-1.0, 0.1}
    assert by_rate[-1.0]["outcome"] == "failed"
    assert "a negative rate" in by_rate[-1.0]["reason"]
    assert "a negative rate" in done.out
    # each run reads a fifth of the training data in place of the validation data
    assert settings["metric"] == "val_accuracy"
    steps = {len(one["epochs"]) for one in others if one["outcome"] == "measured"}
    assert steps <= set(range(1, 10))
    # how fast this machine is decides what is found; that it is proved and written, not
    assert bool(settings["best"]) is (settings["proof"] is not None)
    assert bool(found["written"]) is not bool(found["why_not_written"])
    if found["written"]:
        check_written(folder, found)


def check_written(folder, found):
    proof, text = found["settings"]["proof"], (folder / found["written"]).read_text()
    assert proof["confirmed"]
    assert len(proof["pairs"]) == 4
    assert "in place of 1e-06" in text
    assert "above 0 is better" in text
    planned = tfopt("plan", found["written"], "--json", "plan.json", cwd=folder)
    assert planned.code == 0, planned.err
    trained = tfopt("train", found["written"], cwd=folder)
    assert trained.code == 0, trained.err
