"""`tfopt train --resume` as a command: goes on, and says what it passed over."""

from __future__ import annotations

import shutil
import signal

import pytest
from support.real_process import make_project, signal_once, started, tfopt, wait_until
from support.small_workloads import STATEFUL

from tfopt_core.training.checkpoints.folder import names_in, newest_in

pytestmark = pytest.mark.slow

RECIPE = """
    name = "tiny"
    [workload]
    factory = "small.py:build"
    epochs = 3
    batch_size = 8
    [[plugins]]
    use = "prefetch"
"""
FOLDER = ".tfopt/checkpoints/tiny"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose training was finished; its folder of checkpoints."""
    project = make_project(tmp_path_factory.mktemp("finished"), RECIPE, small=STATEFUL)
    done = tfopt("train", "recipe.toml", "--resume", cwd=project)
    assert done.code == 0, done.err
    assert "writes checkpoints to " in done.out
    assert "trained 3 epochs" in done.out
    return project


@pytest.fixture
def project(finished, tmp_path):
    """A copy of it, to damage."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def newest_history(folder):
    newest = newest_in(folder)
    assert newest.finished
    return newest.values["history"]


@pytest.mark.thorough
def test_a_finished_training_says_so_and_trains_nothing(finished):
    names = names_in(finished / FOLDER)
    done = tfopt("train", "recipe.toml", "--resume", cwd=finished)
    assert done.code == 0, done.err
    assert done.out.strip() == "the training is finished: 3 epochs"
    assert names_in(finished / FOLDER) == names


def test_the_model_of_a_finished_training_is_saved_without_training(project):
    done = tfopt("train", "recipe.toml", "--resume", "--save", "m.keras", cwd=project)
    assert done.code == 0, done.err
    assert "epoch 1/3" not in done.out
    assert "saved: m.keras" in done.out
    assert (project / "m.keras").stat().st_size > 0


def test_a_damaged_newest_is_passed_over_and_the_losses_are_the_same(project):
    folder = project / FOLDER
    history = newest_history(folder)
    newest, before = names_in(folder)
    data = bytearray((folder / newest).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / newest).write_bytes(data)
    done = tfopt("train", "recipe.toml", "--resume", cwd=project)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert f"checkpoint {newest} is damaged and was passed over" in said
    assert f"from {before}" in said
    assert "resumed, trained to the end of 3 epochs" in said
    assert newest_history(folder) == history


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_says_after_which_epoch_it_resumes(tmp_path, number):
    paced = RECIPE.replace("batch_size = 8", "batch_size = 8\n    options = { pause = 0.1 }")
    project = make_project(tmp_path, paced, small=STATEFUL)
    with started("train", "recipe.toml", "--resume", "--seed", "5", cwd=project) as process:
        wait_until("the first epoch's end", lambda: names_in(project / FOLDER))
        signal_once(process, number)
        assert process.wait(60) == 130
    said = (project / "stdout.txt").read_text()
    assert "--resume continues after epoch 1, from checkpoint-000001.tfopt" in said
    assert (project / "stderr.txt").read_text().rstrip().endswith("interrupted")
    assert newest_in(project / FOLDER).damaged == ()
