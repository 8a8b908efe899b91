"""`[measure.baseline]` with real trainings: the untuned training against the tuned one."""

import json

import pytest
from support.real_process import make_project, tfopt
from support.small_workloads import BLOBS

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

RECIPE = """
    name = "blobs"
    [workload]
    factory = "blobs.py:build"
    epochs = 12
    batch_size = 32
    options = { rate = 0.2, units = 16 }
    [[plugins]]
    use = "prefetch"
    [measure]
    pairs = 4
    attribution = "leave-one-out"
    objective = "time-to-target"
    target = { metric = "val_loss", at_most = 1.35 }
    baseline = { batch_size = 64, options = { rate = 0.02 }, defaults = ["units"] }
"""
# of rows of 8, with a bias: hidden and last layer
PARAMETERS = {16: 9 * 16 + 17 * 4, 4: 9 * 4 + 5 * 4}
STEPS = {32: 19, 64: 10}


def shape_of(run):
    """The parameters of a run's model, and its steps an epoch."""
    [fit] = run["fits"]
    return fit["trainable_parameters"], fit["steps"] / fit["epochs"]


def test_the_baseline_trains_untuned_and_the_gain_of_the_options_is_isolated(tmp_path):
    folder = make_project(tmp_path, RECIPE, blobs=BLOBS)
    done = tfopt("apply", "recipe.toml", "--json", "found.json", cwd=folder)
    assert done.code == 0, done.err
    found = json.loads((folder / "found.json").read_text())
    tuned, untuned = (PARAMETERS[16], STEPS[32]), (PARAMETERS[4], STEPS[64])
    assert {(run["variant"], *shape_of(run)) for run in found["runs"]} == {
        ("baseline", *untuned), ("full", *tuned), ("without prefetch", *tuned),
        ("without workload options", *untuned),
    }  # fmt: skip
    by_variant = {run["variant"]: run for run in found["runs"]}
    effect = by_variant["full"]["effects"]["workload options"]
    assert effect["applied"]
    for words in ("rate 0.2 in place of 0.02", "units 16 in place of the workload's own",
                  "batch_size 32 in place of 64"):  # fmt: skip
        assert words in effect["detail"]
        assert words in " ".join(done.out.split())
    assert found["comparison"]["kind"] == "time-to-target"
    assert {one["plugin"] for one in found["attribution"]} == {"workload options", "prefetch"}
