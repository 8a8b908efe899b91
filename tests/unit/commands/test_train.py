"""One training for production: who saves the model, and who says so. No TensorFlow."""

from __future__ import annotations

import attrs
import pytest
from support.fake_role import RUN
from support.measure_runs import make_request
from support.report_results import make_prepared

from tfopt_core.commands.training import train_once, train_script
from tfopt_core.hooks.context import ClusterOptions
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.records.dry_build import PluginPlan
from tfopt_core.records.messages import Failure
from tfopt_core.workers.spawn import ProcessOutcome
from tfopt_core.workers.task import PrepareTask, RunTask


@attrs.frozen(kw_only=True, eq=False)
class Spread(Plugin):
    """A plugin that spreads the training over several processes."""

    @hookimpl
    def configure_runtime(self, machine, recipe, options):
        return attrs.evolve(options, cluster=ClusterOptions(workers=2))


SPREAD = PluginPlan(
    name="spread", settings={}, asked={}, equivalence="exact", summary="", changes=()
)


@attrs.frozen(kw_only=True, eq=False)
class Times(Plugin):
    """A plugin whose setting is found out by timing."""

    steps: int | str = "auto"

    @hookimpl
    def configure_training(self, options):
        return options


NOT_TIMED = 'the settings of plugin "times" were chosen without a loop that could not be timed'
TIMES = PluginPlan(
    name="times", settings={"steps": 1}, asked={"steps": "auto"}, equivalence="exact", summary="",
    changes=(), search_notes=(NOT_TIMED,),
)  # fmt: skip


PLANS = {"spread": SPREAD, "times": TIMES}


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
        return ProcessOutcome(
            message=message, cause=None, seconds=1.0, output_path=None, output_tail=""
        )

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
    done = trained(cluster=cluster, writes=True)
    assert done.run.ok
    assert done.saved_to == tmp_path / "m.keras"
    assert done.saved_to.read_text() == "new"


def test_a_worker_that_saved_nothing_does_not_claim_the_file_of_another(trained, tmp_path):
    (tmp_path / "m.keras").write_text("old")
    done = trained(cluster=True, writes=False)
    assert done.run.ok
    assert done.saved_to is None
    assert (tmp_path / "m.keras").read_text() == "old"


def test_a_training_that_failed_saved_nothing(trained, tmp_path):
    (tmp_path / "m.keras").write_text("old")
    done = trained(cluster=False, writes=True, fails=True)
    assert not done.run.ok
    assert done.saved_to is None
    assert (tmp_path / "m.keras").read_text() == "old"


def test_without_being_asked_nothing_is_saved(trained):
    assert trained(cluster=False, save=False, writes=True).saved_to is None


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
