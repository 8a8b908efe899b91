"""Which checkpoint a training goes on from, and what is refused. No TensorFlow."""

from __future__ import annotations

import attrs
import pytest
from support.measure_runs import make_request

from tfopt_core.commands.training import open_checkpoints, resumed
from tfopt_core.errors import InputError
from tfopt_core.hooks.machine import Gpu
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.checkpoints.folder import Checkpoint, Writer, names_in


@pytest.fixture
def request_of(tmp_path):
    (tmp_path / "train.py").write_text("def build(): ...\n")

    def make(epochs=3, **changes):
        spec = WorkloadSpec(factory="train.py:build", epochs=epochs)
        recipe = Recipe(name="r", path=tmp_path / "r.toml", workload=spec)
        return make_request(recipe=recipe, folder=tmp_path / "runs", **changes)

    return make


@pytest.fixture
def folder(request_of, tmp_path):
    """A folder with two checkpoints of this training."""
    folder = tmp_path / "checkpoints"
    kept = open_checkpoints(request_of(), folder, resume=False)
    writer = Writer(folder)
    request = request_of()
    for epochs in (1, 2):
        about = {"recipe": request.recipe.to_dict(), "fingerprint": dict(kept.code)}
        values = {"about": about, "epochs": epochs, "steps": 0, "finished": False, "seed": 9}
        writer.write(Checkpoint(values))
    return folder


def test_without_checkpoints_a_training_begins_at_the_start(request_of, tmp_path):
    kept = open_checkpoints(request_of(), tmp_path / "new", resume=True)
    assert kept.start is None
    assert resumed(kept, request_of()) is None
    assert not kept.finished


def test_it_goes_on_from_the_newest(request_of, folder):
    kept = open_checkpoints(request_of(), folder, resume=True)
    assert (kept.start, kept.epochs) == ("checkpoint-000002.tfopt", 2)
    assert kept.moved == kept.damaged == ()


def test_a_fresh_start_is_refused_where_there_are_checkpoints(request_of, folder):
    with pytest.raises(InputError, match="use --resume, or remove"):
        open_checkpoints(request_of(), folder, resume=False)


@pytest.mark.parametrize("name", ["train.py", "helper.py"])
def test_an_edited_or_new_file_is_named(request_of, folder, name):
    with (folder.parent / name).open("a") as file:
        file.write("#")
    with pytest.raises(InputError, match=rf'"\./{name}" '):
        open_checkpoints(request_of(), folder, resume=True)


def test_another_recipe_is_refused_with_both_values(request_of, folder):
    with pytest.raises(InputError, match=r"workload\.epochs was 3, is 4"):
        open_checkpoints(request_of(epochs=4), folder, resume=True)


def test_another_environment_is_refused(request_of, folder):
    other = request_of(environment={"TF_ENABLE_ONEDNN_OPTS": "0"})
    with pytest.raises(InputError, match="TF_ENABLE_ONEDNN_OPTS was absent, is 0"):
        open_checkpoints(other, folder, resume=True)


def test_another_machine_with_other_threads_is_said_and_goes_on(request_of, folder):
    machine = attrs.evolve(make_machine(), gpus=(Gpu("A100", (8, 0), 40 * 2**30),))
    variables = (
        "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    )  # fmt: skip
    other = request_of(machine=machine, environment=dict.fromkeys(variables, "3"))
    kept = open_checkpoints(other, folder, resume=True)
    assert kept.start is not None
    said = [f"environment variable {name} was absent, is 3" for name in variables]
    assert kept.moved == ("GPUs was none, is A100", *said)


def test_another_seed_is_refused_and_the_same_one_is_not(request_of, folder):
    assert open_checkpoints(request_of(seed=9), folder, resume=True).start is not None
    with pytest.raises(InputError, match="has the seed 9"):
        open_checkpoints(request_of(seed=8), folder, resume=True)


def test_with_all_checkpoints_damaged_nothing_is_trained_over_them(request_of, folder):
    for name in names_in(folder):
        (folder / name).write_bytes(b"")
    with pytest.raises(InputError, match="are damaged"):
        open_checkpoints(request_of(), folder, resume=True)
    assert len(names_in(folder)) == 2
