"""`tfopt tune` of options by quality with real trainings: tried, proved, written, resumed."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing, suppress

import pytest
from support.forked_command import HASTY
from support.real_process import (
    alive,
    descendants,
    make_project,
    signal_once,
    started,
    tfopt,
    wait_until,
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


def settings_trials(folder):
    """The trials that were made in a project, without the untuned training."""
    path = folder / ".tfopt" / "tune" / "studies.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as studies, suppress(sqlite3.OperationalError):
        rows = studies.execute(
            "SELECT value_json FROM trial_user_attributes WHERE key = 'tfopt:trial'"
        ).fetchall()
        return [json.loads(data) for (data,) in rows]
    return []


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


def test_a_killed_search_of_options_resumes_with_its_trials(tmp_path):
    # no rate learns, so that nothing is to be proved
    folder = make_project(tmp_path, RECIPE.replace("0.1]", "1e-7]"), blobs=BLOBS)
    with started("tune", "recipe.toml", cwd=folder, before=HASTY) as process:
        wait_until("a first trial", lambda: len(settings_trials(folder)) > 1)
        begun = descendants(process)
        signal_once(process, signal.SIGKILL)
        process.wait()
    wait_until("the end of its processes", lambda: not alive(begun))
    before = settings_trials(folder)
    _, found = search_in(folder, "--resume")
    assert found["resumed"] == 1
    untuned, *others = found["settings"]["trials"]
    assert untuned["values"] == {}
    assert others[: len(before)] == before
    values = [json.dumps(one["values"]) for one in settings_trials(folder)]
    # the untuned value is that of the first training, which is not repeated
    assert len(values) == len(set(values)) == 2
