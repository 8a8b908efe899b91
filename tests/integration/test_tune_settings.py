"""`tfopt tune` of options by time to target with real trainings: tried, proved and written."""

import json

import pytest
from support.forked_command import HASTY
from support.real_process import make_project, tfopt
from support.small_workloads import BLOBS

from tfopt_core.tuning.trials import LEAST_RATIO

pytest.importorskip("optuna", reason="the tune extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.thorough]

RECIPE = """
    name = "blobs"
    [workload]
    factory = "blobs.py:build"
    epochs = 12
    batch_size = 32
    [workload.options]
    rate = 0.02
    units = 16
    [measure]
    target = { metric = "val_loss", at_most = 1.35 }
    [tune]
    objective = "time-to-target"
    budget = "6m"
    pruner = "none"
    [tune.options]
    rate = [-1.0, 0.02, 0.2]
"""


def test_options_are_searched_by_time_to_target_and_proved_on_the_validation_data(tmp_path):
    folder = make_project(tmp_path / "p", RECIPE, blobs=BLOBS)
    # an observer is never tried, so the search of stacks is over at once
    done = tfopt(
        "tune", "recipe.toml", "--plugin", "profile", "--json", "found.json", cwd=folder,
        before=HASTY,
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads((folder / "found.json").read_text())
    settings = found["settings"]
    assert settings["metric"] == "val_loss"
    by_rate = {one["values"]["options.rate"]: one for one in settings["trials"]}
    assert set(by_rate) == {-1.0, 0.2}
    assert by_rate[-1.0]["outcome"] == "refused"
    assert "a negative rate" in by_rate[-1.0]["reason"]
    assert "a negative rate" in " ".join(done.out.split())
    assert by_rate[0.2]["outcome"] == "measured"
    # how fast this machine is decides what is found and confirmed; that it is measured, not
    assert found["proof"] is not None or by_rate[0.2]["figure"] <= LEAST_RATIO
    assert bool(found["written"]) is not bool(found["why_not_written"])
    if settings["best"]:
        text = (folder / found["written"]).read_text()
        assert "in place of 0.02" in text
        planned = tfopt("plan", found["written"], "--json", "plan.json", cwd=folder)
        assert planned.code == 0, planned.err
