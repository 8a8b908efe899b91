"""`tfopt diagnose` on trainings whose troubles are known."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import attrs
import pytest
from cattrs import structure
from support.in_process import carry_out_here, ended_with
from support.real_process import Done, make_distribution, make_project

from tfopt_core.commands.main import run
from tfopt_core.diagnosis import matmul, step_rounds
from tfopt_core.diagnosis import process as diagnosing
from tfopt_core.diagnosis.results import Diagnosed, PartsMeasured, PluginAsked
from tfopt_core.diagnosis.step_parts import RecordingLimits
from tfopt_core.errors import PreparationFailed
from tfopt_core.training.messages import Message

pytestmark = pytest.mark.slow

# Reading an example sleeps, so that nearly all of a step is input; the step holds a loop.
SLOW_INPUT = """
    import time
    import keras
    import numpy as np
    import tensorflow as tf
    from tfopt_core import DataPlan, Workload

    X = np.random.default_rng(3).random((48, 6, 2), "float32")

    def sleepy(x, y):
        slept = tf.numpy_function(lambda a: (time.sleep(0.008), a)[1], [x], tf.float32)
        return tf.ensure_shape(slept, (6, 2)), y

    def build(**options):
        def build_model():
            return keras.Sequential([keras.Input((6, 2)), keras.layers.SimpleRNN(4),
                                     keras.layers.Dense(1)])
        plan = DataPlan.from_arrays(X, X[:, 0, :1]).map(sleepy, deterministic=True)
        return Workload(train=plan, validation=plan, build_model=build_model, optimizer="sgd",
                        loss="mse", shuffle=False, batch_size=8, epochs=3, baseline="sleeps")
"""
RECIPE = """
    name = "sleepy"
    [workload]
    factory = "slow.py:build"
"""
# A third party's plugins: one that proposes itself, one that fails, one that is broken.
THEIRS = """
    import attrs
    from typing import ClassVar
    from tfopt_core.plugins import Plugin, hookimpl

    @attrs.frozen(kw_only=True, eq=False)
    class Nap(Plugin):
        \"\"\"Sleeps less.\"\"\"
        targets: ClassVar[tuple[str, ...]] = ("input",)
        seconds: float = 1.0

        equivalence = "exact"

        def suggest(self, diagnosis):
            assert diagnosis.plans["train"].stages
            return {"seconds": 0.5} if diagnosis.found("python-function", "train") else None

        @hookimpl
        def build_dataset(self, run, split, plan):
            return plan

    class Fails(Nap):
        def suggest(self, diagnosis):
            raise ZeroDivisionError("by design")
"""
BROKEN = "raise ImportError('no such library')"

PLUGINS = """
    [[plugins]]
    use = "cache"
    [[plugins]]
    use = "mixed-precision"
    policy = "mixed_bfloat16"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosed")
    return make_project(folder, RECIPE + PLUGINS, slow=SLOW_INPUT)


@pytest.fixture(scope="module")
def quick():
    """Everything in this process, and three rounds of a moment each: one may stall."""
    with pytest.MonkeyPatch.context() as patch:
        carry_out_here(patch)
        short = RecordingLimits(seconds=0.1, at_most=0.3)
        for name in ("REAL", "CACHED", "GRAPH", "DATA"):
            patch.setattr(step_rounds, name, short)
        patch.setattr(matmul, "PEAK_SECONDS", 0.05)
        patch.setattr(step_rounds, "ROUNDS", 3)
        yield


@pytest.fixture(scope="module")
def baseline(project, quick, tmp_path_factory):
    """How the baseline's diagnosis ended, where a third party's distribution is installed, and what
    `--json` wrote."""
    site = make_distribution(
        tmp_path_factory.mktemp("site"), "their-plugins",
        {"nap": "their_naps:Nap", "fails": "their_naps:Fails", "broken": "their_broken:Broken"},
        their_naps=THEIRS, their_broken=BROKEN,
    )  # fmt: skip
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", str(site))  # for the processes that it starts
        patch.chdir(project)
        code = run(["diagnose", "recipe.toml", "--json", "out.json"])
    assert code == 0, err.getvalue()
    data = json.loads((project / "out.json").read_text())
    return Done(code, out.getvalue(), err.getvalue()), data


def test_it_says_where_the_time_goes(baseline):
    data = baseline[1]
    # eight examples sleep 8 ms each, in every step that reads them
    assert data["data_seconds"] > 0.06
    assert all(round_["real"] > 0.06 for round_ in data["rounds"])
    parts = sum(data[f"{part}_seconds"] for part in ("input", "dispatch", "compute"))
    assert parts == pytest.approx(data["step_seconds"])
    assert len(data["rounds"]) == 3
    assert "timing the loops, round 3 of 3" in baseline[0].err
    assert "any input plugin" in baseline[0].out


def test_it_diagnoses_the_baseline_and_keeps_nothing(baseline, project):
    assert baseline[1]["stack"] == []
    assert baseline[1]["policy"] == "float32"
    assert not (project / ".tfopt").exists()


def test_it_compares_what_the_model_multiplies_with_the_machines_peak(baseline):
    assert baseline[1]["matmul_peaks"]["float32"] > 0
    assert 0 < baseline[1]["matmul_share"] < 1


def test_it_names_what_costs_time_with_its_place(baseline):
    kinds = {finding["kind"]: finding for finding in baseline[1]["findings"]}
    assert {"python-function", "sequential-map", "no-prefetch", "control-flow"} <= set(kinds)
    assert kinds["python-function"]["place"].endswith("slow.py:10")
    assert "a loop of 6 rounds" in kinds["control-flow"]["detail"]


def test_it_proposes_a_third_partys_plugin_like_any_other(baseline):
    suggestions = {one["plugin"]: one for one in baseline[1]["suggestions"]}
    assert suggestions["nap"]["settings"] == {"seconds": 0.5}
    assert suggestions["nap"]["distribution"] == "their-plugins"
    assert suggestions["nap"]["bound"] == baseline[1]["bounds"]["input"]
    assert "nap" in baseline[1]["proposed_stack"]
    assert '[[plugins]] use = "nap" seconds = 0.5' in " ".join(baseline[0].out.split())


def test_plugins_that_fail_are_named_and_harm_nobody(baseline):
    silent = {one["plugin"]: one["cause"] for one in baseline[1]["silent"]}
    assert "by design" in silent["fails"]
    assert "no such library" in silent["broken"]
    assert "Gave no answer" in baseline[0].out


def request_for(project: Path):
    from tfopt_core.commands.request import make_request

    request, _ = make_request(str(project / "recipe.toml"), (), compares=False, keeps=False)
    return attrs.evolve(request, plugins=(), folder=project / "runs")


@attrs.frozen
class Dies:
    """A process that says this much and is gone."""

    messages: tuple[Message, ...]

    def __call__(self, task, environment, tell):
        for message in self.messages:
            tell(message)
        return ended_with(cause="was killed by SIGABRT")


def test_a_plugin_that_takes_the_process_with_it_leaves_what_was_measured(baseline, project):
    measured = {**baseline[1], "suggestions": [], "silent": []}
    runner = Dies((
        PartsMeasured(structure(measured, Diagnosed)), PluginAsked("good"), PluginAsked("evil"),
    ))  # fmt: skip
    found = diagnosing.diagnose(request_for(project), runner, (), lambda phase: None)
    assert found.step_seconds == measured["step_seconds"]
    [silent] = found.silent
    assert silent.plugin == "evil"
    assert "SIGABRT" in silent.cause


def test_a_process_that_dies_before_it_measured_is_a_failure(project):
    with pytest.raises(PreparationFailed, match="SIGABRT"):
        diagnosing.diagnose(request_for(project), Dies(()), (), lambda phase: None)
