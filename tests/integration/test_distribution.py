"""Trainings over several replicas, in real processes on loopback: the same as on one device."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.forked_command import runs_forked

from tfopt_core.commands.request import make_request
from tfopt_core.statistics.runs import FULL, RunResult
from tfopt_core.training.checkpoints.folder import make_ours, newest_in
from tfopt_core.training.job import CheckpointConfig
from tfopt_core.training.messages import EpochDone
from tfopt_core.trials.outcomes import MODEL_FILE, run_folder
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers.local_cluster import LocalCluster
from tfopt_core.workers.spawn import SpawnRunner

SUPPORT = Path(__file__).parents[1] / "support"
# The last batch holds one example: all replicas but one have none.
COUNT, BATCH, EPOCHS = 97, 16, 3

RECIPE = """
name = "shared"

[workload]
factory = "shared_workload.py:{factory}"
epochs = {epochs}
batch_size = {batch}
options = {{ {options} }}

{plugins}

[measure]
target = {{ metric = "{metric}", {target} }}
"""


@attrs.frozen
class Trained:
    """One training: the chief's run and every role's metrics, an epoch each."""

    run: RunResult
    epochs: list[dict[str, float]]
    others: dict[str, list[dict[str, float]]]
    ids: Path
    model: Path

    def seen(self, epoch: int) -> Counter[int]:
        """How often each example was trained on in an epoch, over all processes and replicas."""
        seen: Counter[int] = Counter()
        for file in self.ids.parent.glob(f"{self.ids.name}-*"):
            lines = file.read_text().splitlines()
            each = len(lines) // EPOCHS
            ours = lines[epoch * each : (epoch + 1) * each]
            ids = [int(i) for line in ours for i in line.strip("[]").split()]
            seen.update(i for i in ids if i)  # 0 stands in for no example
        return seen


def trained(
    folder: Path,
    *plugins: str,
    factory: str = "build",
    options: str = "",
    checkpoints: CheckpointConfig | None = None,
    fails: bool = False,
    **recipe: Any,
) -> Trained:
    """Train once, every process of it on this machine, without the dry build."""
    folder.mkdir(exist_ok=True)
    shutil.copy(SUPPORT / "shared_workload.py", folder)
    (folder / "pyproject.toml").touch()
    ids = folder / "ids"
    if factory == "build":
        options = ", ".join(filter(None, [f'ids = "{ids}"', options]))
    file = folder / "recipe.toml"
    file.write_text(
        RECIPE.format(
            factory=factory,
            epochs=EPOCHS,
            batch=BATCH,
            options=options,
            plugins="\n".join(f"[[plugins]]\n{plugin}" for plugin in plugins),
            metric=recipe.pop("metric", "val_loss"),
            target=recipe.pop("target", "at_most = 0.1"),
        )
    )
    request, _ = make_request(str(file), [], compares=False)
    epochs: list[dict[str, float]] = []
    others: dict[str, list[dict[str, float]]] = {}

    def keep(message: dict[str, Any]) -> None:
        if isinstance(message, EpochDone):
            epochs.append(message.metrics)

    def keep_of(role: Any, message: dict[str, Any]) -> None:
        if isinstance(message, EpochDone):
            others.setdefault(role.name, []).append(message.metrics)

    runner = LocalCluster(spawn=SpawnRunner(), on_message=keep_of)
    scheduled = ScheduledRun(0, 0, Variant(FULL, request.plugins), 7)
    with runs_forked():
        run = Processes(request, runner).run(
            scheduled, "run", keep, save=True, checkpoints=checkpoints
        )
    assert run.ok is not fails, f"{run.error}\n{run.output_tail}"
    model = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
    return Trained(run, epochs, others, ids, model)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The training that all others are compared with: one device, stock `fit`."""
    return trained(tmp_path_factory.mktemp("alone") / "project")


def same(trained: list[dict[str, float]], alone: list[dict[str, float]], *, but: str = "") -> None:
    assert len(trained) == len(alone)
    for ours, theirs in zip(trained, alone, strict=True):
        assert set(ours) == set(theirs)
        for name in set(ours) - {but}:
            assert ours[name] == pytest.approx(theirs[name], rel=2e-5, abs=2e-6), name


@pytest.mark.parametrize(
    ("plugins", "replicas", "workers"),
    [
        pytest.param(
            ['use = "multi-worker"\nworkers = 3', 'use = "steps-per-execution"\nsteps = 4'],
            3,
            3,
            id="3 workers, 4 steps a call",
            marks=pytest.mark.thorough,
        ),
        pytest.param(['use = "mirrored"\nlogical_cpu_devices = 2'], 2, 1, id="2 devices"),
    ],
)
def test_several_replicas_train_as_one_device_does(plugins, replicas, workers, alone, tmp_path):
    """Losses, metrics, validation, evaluate, predict and the uneven last batch."""
    several = trained(tmp_path / "project", *plugins)

    # a log that is no metric is the mean over the replicas, each with a part of the batch
    same(several.epochs, alone.epochs, but="highest_id")
    assert len(several.others) == workers - 1
    for others in several.others.values():
        assert others == several.epochs
    for epoch in range(EPOCHS):
        assert several.seen(epoch) == Counter(range(1, COUNT + 1))
    fit = several.run.fit
    assert (fit.replicas, fit.workers) == (replicas, workers)
    # joining is inside of what is compared, and paid once
    assert several.run.wall_seconds > fit.one_time_seconds > (fit.cluster_seconds or 0.0)
    assert (fit.cluster_seconds is not None) is (workers > 1)


@pytest.mark.thorough
def test_a_parameter_server_and_a_worker_train_what_the_chief_hands_out(tmp_path: Path) -> None:
    server = 'use = "parameter-server"\nworkers = 1\nparameter_servers = 1'
    served = trained(tmp_path / "project", server, options="count = 20, recording = false")

    assert served.run.effects["parameter-server"].applied
    losses = [metrics["loss"] for metrics in served.epochs]
    assert losses[-1] < losses[0]
    assert served.epochs[-1]["iterations"] == served.run.fit.steps == EPOCHS * 2


@pytest.mark.thorough
def test_an_overflow_on_one_worker_alone_is_found_by_all(tmp_path: Path) -> None:
    """Otherwise one skips the step and the other waits for it in the all-reduce, for ever."""
    several = trained(
        tmp_path / "project",
        'use = "mixed-precision"\npolicy = "mixed_float16"\nforce = true',
        'use = "multi-worker"',
        factory="overflowing",
    )

    assert len(several.epochs) == EPOCHS
    assert several.others["worker 1"] == several.epochs
    # it began at 32768, and was halved by each overflow
    assert "now 16384" in several.run.effects["mixed-precision"].detail.replace("8192", "16384")


@pytest.mark.thorough
def test_workers_go_on_from_a_checkpoint_as_if_none_had_been_killed(tmp_path: Path) -> None:
    """With averages of batch normalization, which the chief's checkpoint holds for all."""
    plugins = ['use = "multi-worker"']
    options = "recording = false, normalized = true, dies = {}"
    undisturbed = trained(tmp_path / "a", *plugins, options=options.format("false"))
    folder = tmp_path / "checkpoints"
    make_ours(folder)

    killed = trained(
        tmp_path / "b", *plugins, options=options.format("true"), fails=True,
        checkpoints=CheckpointConfig(folder=folder),
    )  # fmt: skip
    newest = newest_in(folder)
    assert newest.epochs == 1
    went_on = trained(
        tmp_path / "b", *plugins, options=options.format("true"),
        checkpoints=CheckpointConfig(folder=folder, start=newest.start),
    )  # fmt: skip

    assert "worker 1 was killed by SIGKILL" in str(killed.run.error)
    asked = {"asked_loss", "asked_accuracy", "asked_mean", "iterations"}
    before = [
        {name: value for name, value in metrics.items() if name not in asked}
        for metrics in undisturbed.epochs
    ]
    same(killed.epochs + went_on.epochs, before)
    same(went_on.others["worker 1"], before[1:])
