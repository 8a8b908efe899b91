"""Runs and requests made by hand, for tests of what is concluded from them."""

from pathlib import Path

import attrs

from tfopt_core.hooks.values import Effect
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.statistics.figures import Judgement
from tfopt_core.statistics.runs import FitResult, RunResult
from tfopt_core.testing import make_machine
from tfopt_core.training.messages import Block, FitOutcome
from tfopt_core.trials.request import Request


def make_request(workload: WorkloadSpec | None = None, **changes) -> Request:
    """A request without plugins, of a recipe of this workload."""
    plain = {
        "recipe": Recipe(name="r", workload=workload or WorkloadSpec(use="w")), "plugins": (),
        "machine": make_machine(), "folder": Path("nowhere"), "environment": {},
    }  # fmt: skip
    return Request(**{**plain, **changes})


def make_fit(**changes):
    plain = {
        "one_time_seconds": 1.0, "blocks": (), "step_seconds": 0.01,
        "examples_per_second": 3200.0, "trainable_parameters": 10, "epochs": 2, "steps": 100,
        "epochs_to_target": None, "seconds_to_target": None, "jit_compile": False,
        "metrics": {"val_accuracy": 0.9}, "history": {"val_accuracy": (0.8, 0.9)},
    }  # fmt: skip
    return FitResult(**{**plain, **changes})


def make_outcome(**changes):
    """A fit as its process reports it: trained in `wall_seconds`, without any start-up."""
    wall = changes.pop("wall_seconds", 10.0)
    plain = {
        "wall_seconds": wall, "setup_seconds": 0.0, "blocks": (Block(100, wall),),
        "validation_seconds": (),
        "epoch_end_seconds": (wall / 2, wall), "cut_short": False, "planned_epochs": 2,
        "steps_per_epoch": 50, "epochs": 2, "steps": 100, "batch_size": 32,
        "trainable_parameters": 10, "jit_compile": False,
        "history": {"val_accuracy": (0.8, 0.9)},
    }  # fmt: skip
    return FitOutcome(**{**plain, **changes})


def make_run(
    variant, round_, wall, *, applied=True, status="ok", plugins=("p",), fit=None, **changes
):
    """A run; `fit`, or one with these changes, is what it trained."""
    return RunResult(
        id=f"{variant} {round_}", variant=variant, round=round_, position=0, seed=round_,
        status=status, wall_seconds=wall if status == "ok" else None,
        effects={} if variant == "baseline" else {
            name: Effect(applied, "set" if applied else "nothing to do") for name in plugins
        },
        fits=(fit or make_fit(**changes),) if status == "ok" else (),
        error=None if status == "ok" else "killed by SIGKILL",
    )  # fmt: skip


def make_pairs(baseline, optimized, variant="full", **changes):
    """Rounds of two runs with these wall times; `changes` are made to the optimized runs."""
    runs = []
    for round_, (b, o) in enumerate(zip(baseline, optimized, strict=True)):
        runs += [make_run("baseline", round_, b), make_run(variant, round_, o, **changes)]
    return runs


def with_fits(runs, variant=None, **changes):
    """The runs, with these changes to the fit of each, or of each of a variant; a function is
    called with the run."""

    def changed(run):
        given = {name: value(run) if callable(value) else value for name, value in changes.items()}
        return attrs.evolve(run, fits=(attrs.evolve(run.fit, **given),))

    return [changed(run) if variant in (None, run.variant) else run for run in runs]


def make_judgement(**changes):
    plain = {
        "metric": "val_accuracy", "direction": "max", "tolerance": 0.005, "examples": 5000,
        "equivalence": "rounding",
    }  # fmt: skip
    return Judgement(**{**plain, **changes})
