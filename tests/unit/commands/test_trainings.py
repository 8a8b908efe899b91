"""One training for production: whether it has something to do, which checkpoint it goes on from,
and who saves the model. No TensorFlow."""

import attrs
import pytest
from support.fake_role import RUN
from support.in_process import ended_with
from support.measure_runs import make_request
from support.real_process import make_project
from support.report_results import make_plan, make_prepared, make_run, show

from tfopt_core.commands import request as asking
from tfopt_core.commands import training as once
from tfopt_core.commands.main import run
from tfopt_core.commands.training import (
    checkpoints_of,
    open_checkpoints,
    resumed,
    train_once,
    train_script,
)
from tfopt_core.errors import InputError
from tfopt_core.hooks.context import ClusterOptions
from tfopt_core.hooks.machine import Gpu
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.report.training import render_resume_point
from tfopt_core.testing import make_machine
from tfopt_core.training.checkpoints.folder import Checkpoint, Writer, names_in
from tfopt_core.workers.task import Failure, PrepareTask, RunTask


@attrs.frozen(kw_only=True, eq=False)
class Spread(Plugin):
    """A plugin that spreads the training over several processes."""

    @hookimpl
    def configure_runtime(self, machine, recipe, options):
        return attrs.evolve(options, cluster=ClusterOptions(workers=2))


@attrs.frozen(kw_only=True, eq=False)
class Times(Plugin):
    """A plugin whose setting is found out by timing."""

    steps: int | str = "auto"

    @hookimpl
    def configure_training(self, options):
        return options


NOT_TIMED = 'the settings of plugin "times" were chosen without a loop that could not be timed'
TIMES = make_plan(
    "times", settings={"steps": 1}, asked={"steps": "auto"}, search_notes=(NOT_TIMED,)
)
PLANS = {"spread": make_plan("spread"), "times": TIMES}


def runner(*, writes, fails=False):
    """Trains in no time, and saves the model or leaves that to another worker."""

    def carry_out(task, environment, tell):
        task.job.folder.mkdir(parents=True, exist_ok=True)
        message = RUN
        if isinstance(task, PrepareTask):
            plans = tuple(PLANS[stacked.name] for stacked in task.job.plugins)
            message = make_prepared(plugins=plans)
        elif fails:
            message = Failure(error="E", message="lost", exit_code=3)
        if isinstance(task, RunTask) and task.save_to is not None and writes:
            task.save_to.write_text("new")
        return ended_with(message)

    return carry_out


@pytest.fixture
def trained(tmp_path):
    def train(*, cluster, save=True, **changes):
        plugins = (StackedPlugin("spread", Spread()),) if cluster else ()
        (tmp_path / "train.py").touch()
        spec = WorkloadSpec(factory="train.py:build", epochs=1)
        request = make_request(
            recipe=Recipe(name="r", path=tmp_path / "r.toml", workload=spec), plugins=plugins,
            folder=tmp_path / "runs" / "1", save_to=tmp_path / "m.keras" if save else None,
        )  # fmt: skip
        carry_out = runner(**changes)
        return train_once(request, carry_out, carry_out, lambda *epoch: None)

    return train


@pytest.mark.parametrize("cluster", [False, True])
def test_whoever_saves_the_model_says_where(trained, tmp_path, cluster):
    run, saved_to = trained(cluster=cluster, writes=True)
    assert run.ok
    assert saved_to == tmp_path / "m.keras"
    assert saved_to.read_text() == "new"


@pytest.mark.parametrize(
    ("how", "ok"),
    [({"cluster": True, "writes": False}, True),
     ({"cluster": False, "writes": True, "fails": True}, False)],
    ids=["another worker", "failed"],
)  # fmt: skip
def test_a_training_that_saved_nothing_does_not_claim_the_file_of_another(
    trained, tmp_path, how, ok
):
    (tmp_path / "m.keras").write_text("old")
    run, saved_to = trained(**how)
    assert run.ok is ok
    assert saved_to is None
    assert (tmp_path / "m.keras").read_text() == "old"


def test_without_being_asked_nothing_is_saved(trained):
    assert trained(cluster=False, save=False, writes=True)[1] is None


@pytest.mark.parametrize("script", [False, True])
def test_a_loop_that_could_not_be_timed_is_noted(tmp_path, script):
    (tmp_path / "train.py").touch()
    spec = {"script": "train.py"} if script else {"factory": "train.py:build", "epochs": 1}
    request = make_request(
        recipe=Recipe(name="r", path=tmp_path / "r.toml", workload=WorkloadSpec(**spec)),
        plugins=(StackedPlugin("times", Times()),), folder=tmp_path / "runs" / "1",
    )  # fmt: skip
    carry_out, told = runner(writes=False), []
    if script:
        told += train_script(request, carry_out, carry_out).notes
    else:
        train_once(request, carry_out, carry_out, lambda *epoch: None, on_note=told.append)
    assert told == [NOT_TIMED]


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
        return make_run(1, "full"), None


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
    request, results = asking.make_request(str(recipe), [], compares=False)
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
    (folder / kept.start).write_bytes(b"damaged")
    kept = open_checkpoints(request_of(), folder, resume=True)
    assert (kept.start, kept.epochs) == ("checkpoint-000001.tfopt", 1)
    assert kept.damaged == ("checkpoint-000002.tfopt",)
    assert "checkpoint-000002.tfopt is damaged and was passed" in show(render_resume_point(kept))


@pytest.mark.parametrize(
    ("changes", "resume", "said"),
    [
        ({}, False, "use --resume, or remove"),
        ({"epochs": 4}, True, r"workload\.epochs was 3, is 4"),
        ({"environment": {"TF_ENABLE_ONEDNN_OPTS": "0"}}, True,
         "TF_ENABLE_ONEDNN_OPTS was absent, is 0"),
        ({"seed": 8}, True, "has the seed 9"),
    ],
)  # fmt: skip
def test_another_training_is_refused_with_what_differs(request_of, folder, changes, resume, said):
    assert open_checkpoints(request_of(seed=9), folder, resume=True).start is not None
    with pytest.raises(InputError, match=said):
        open_checkpoints(request_of(**changes), folder, resume=resume)


@pytest.mark.parametrize("name", ["train.py", "helper.py"])
def test_an_edited_or_new_file_is_named(request_of, folder, name):
    with (folder.parent / name).open("a") as file:
        file.write("#")
    with pytest.raises(InputError, match=rf'"\./{name}" '):
        open_checkpoints(request_of(), folder, resume=True)


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


def test_with_all_checkpoints_damaged_nothing_is_trained_over_them(request_of, folder):
    for name in names_in(folder):
        (folder / name).write_bytes(b"")
    with pytest.raises(InputError, match="are damaged"):
        open_checkpoints(request_of(), folder, resume=True)
    assert len(names_in(folder)) == 2
