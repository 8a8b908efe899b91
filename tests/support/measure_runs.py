"""Runs made by hand, for tests of what is concluded from them."""

from __future__ import annotations

from tfopt_core.records.results import EffectResult, FitResult, RunResult
from tfopt_core.statistics.judgement import Judgement


def make_fit(**changes):
    plain = {
        "one_time_seconds": 1.0, "blocks": (), "steady": True, "step_seconds": 0.01,
        "examples_per_second": 3200.0, "trainable_parameters": 10, "epochs": 2, "steps": 100,
        "epochs_to_target": None, "seconds_to_target": None, "jit_compile": False,
        "metrics": {"val_accuracy": 0.9}, "history": {"val_accuracy": (0.8, 0.9)},
    }  # fmt: skip
    return FitResult(**{**plain, **changes})


def make_run(
    variant, round_, wall, *, applied=True, status="ok", plugins=("p",), fit=None, **changes
):
    """A run; `fit`, or one with these changes, is what it trained."""
    return RunResult(
        id=f"{variant} {round_}", variant=variant, round=round_, position=0, seed=round_,
        status=status, wall_seconds=wall if status == "ok" else None,
        effects={} if variant == "baseline" else {
            name: EffectResult(applied, "set" if applied else "nothing to do") for name in plugins
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


def make_judgement(**changes):
    plain = {
        "metric": "val_accuracy", "direction": "max", "tolerance": 0.005, "examples": 5000,
        "math": "rounding", "target": None, "sequential": False,
    }  # fmt: skip
    return Judgement(**{**plain, **changes})
