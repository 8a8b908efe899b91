"""The figures of a fit: one-time cost, the mean step, epochs to the target."""

from __future__ import annotations

import pytest

from tfopt_core.recipe.model import TargetSpec
from tfopt_core.records.run import Block, FitOutcome
from tfopt_core.statistics.fit_figures import (
    epochs_to_target,
    mean_step,
    one_time_seconds,
    summarize,
)


def outcome(**changes):
    plain = {
        "wall_seconds": 10.0, "setup_seconds": 0.5, "blocks": (), "validation_seconds": (),
        "epoch_begin_seconds": (), "epoch_end_seconds": (), "cut_short": False,
        "planned_epochs": 1, "steps_per_epoch": 10, "epochs": 1, "steps": 10, "batch_size": 32,
        "replicas": 1,
        "trainable_parameters": 1, "jit_compile": False, "float32_layers": (),
        "stop_reason": None, "history": {},
    }  # fmt: skip
    return FitOutcome(**{**plain, **changes})


def test_one_time_cost_is_what_cold_blocks_take_beyond_their_share():
    cold = (Block(1, 2.01, 0, "trace"), Block(10, 0.1, 0))
    fit = outcome(blocks=cold, validation_seconds=(0.7, 0.2, 0.2))
    assert one_time_seconds(fit, 0.01) == pytest.approx(0.5 + 2.0 + 0.5)


def test_epochs_to_target_count_from_one():
    history = {"val_accuracy": [0.7, 0.8, 0.9], "val_loss": [0.5, 0.4, 0.3]}
    assert epochs_to_target(history, TargetSpec(metric="val_accuracy", at_least=0.8)) == 2
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.3)) == 3
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.1)) is None


def test_a_step_takes_the_mean_of_warm_blocks_stalls_included():
    timed = (Block(1, 5.0, 0, "trace"), Block(10, 0.1), Block(10, 0.1), Block(10, 0.4))
    found = summarize(outcome(blocks=timed), None)
    assert found.step_seconds == pytest.approx(0.02)
    assert found.examples_per_second == pytest.approx(1600)
    assert summarize(outcome(blocks=timed[:1]), None).step_seconds is None


def test_a_run_that_took_turns_is_timed_in_them():
    alone = (Block(10, 0.9), Block(10, 0.9))
    turns = tuple(Block(10, seconds, 0, "", in_turns=True) for seconds in (0.1, 0.3))
    assert mean_step((*alone, *turns)) == pytest.approx(0.02)
    assert mean_step(alone) == pytest.approx(0.09)
