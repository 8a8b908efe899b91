"""When `tfopt train` has something to do, and what it says was saved. No TensorFlow."""

from __future__ import annotations

import pytest
from support.real_process import make_project
from support.report_results import make_prepared, make_run

from tfopt_core.commands import training as once
from tfopt_core.commands.main import run
from tfopt_core.commands.request import make_request
from tfopt_core.commands.training import checkpoints_of
from tfopt_core.training.checkpoints.folder import Checkpoint, Writer

RECIPE = """
    name = "r"
    [workload]
    factory = "w.py:build"
    [[plugins]]
    use = "STRATEGY"
"""


class Training:
    """Stands in for the training, which needs TensorFlow: counts, and saves nothing."""

    def __init__(self):
        self.begun = 0

    def __call__(self, request, *_, **__):
        self.begun += 1
        return once.Trained(run=make_run(1, "full"), prepared=make_prepared(), saved_to=None)


@pytest.fixture
def training(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    found = Training()
    monkeypatch.setattr(once, "train_once", found)
    return found


def project(folder, strategy):
    text = RECIPE.replace("STRATEGY", strategy)
    return make_project(folder / "project", text, w="build = None") / "recipe.toml"


def finish(recipe):
    """Leave the checkpoint of a finished training."""
    request, results = make_request(str(recipe), [], compares=False)
    kept = checkpoints_of(request, results, resume=True, folder=None)
    about = {"recipe": request.recipe.to_dict(), "fingerprint": dict(kept.code)}
    values = {"about": about, "epochs": 2, "finished": True, "seed": 9}
    Writer(kept.folder).write(Checkpoint(values))


@pytest.mark.parametrize(
    ("strategy", "save", "joins"),
    [
        ("one-device", False, 0),
        ("one-device", True, 1),
        # others may have been started with --save, and wait for this one
        ("multi-worker", False, 1),
        ("multi-worker", True, 1),
        ("parameter-server", False, 1),
    ],
)
def test_a_finished_training_ends_at_once_unless_others_may_wait(
    tmp_path, training, capsys, strategy, save, joins
):
    recipe = project(tmp_path, strategy)
    finish(recipe)
    asked = ["--save", str(tmp_path / "m.keras")] if save else []
    assert run(["train", str(recipe), "--resume", *asked]) == 0
    assert "the training is finished: 2 epochs" in capsys.readouterr().out
    assert training.begun == joins
