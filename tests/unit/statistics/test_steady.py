"""Steady state: known warm-up dropped, shifts found, short samples said."""

from __future__ import annotations

import random

import pytest

from tfopt_core.recipe import TargetSpec
from tfopt_core.records.fit import Block, FitOutcome
from tfopt_core.statistics.timing.steady import last_segment, steady_state
from tfopt_core.statistics.timing.summary import epochs_to_target, one_time_seconds


def blocks(level, count, noise=0.01, cold="", seed=1):
    source = random.Random(seed)
    return [Block(10, 10 * level * (1 + source.gauss(0, noise)), 0, cold) for _ in range(count)]


def test_cold_blocks_are_no_samples():
    state = steady_state([*blocks(5.0, 30, cold="trace"), *blocks(0.01, 40)])
    assert state.steady
    assert state.step_seconds == pytest.approx(0.01, rel=0.02)


def test_a_left_over_shift_is_found_and_dropped():
    state = steady_state([*blocks(0.02, 25), *blocks(0.01, 60, seed=2)])
    assert state.steady
    assert state.step_seconds == pytest.approx(0.01, rel=0.02)


def test_a_run_whose_last_level_is_short_is_not_steady():
    assert not steady_state([*blocks(0.01, 60), *blocks(0.02, 25, seed=2)]).steady


def test_few_blocks_are_not_steady_but_have_a_median():
    state = steady_state(blocks(0.01, 5))
    assert not state.steady
    assert state.step_seconds == pytest.approx(0.01, rel=0.05)


def test_nothing_warm_gives_no_step_time():
    assert steady_state(blocks(1.0, 2, cold="trace")).step_seconds is None


def test_noise_alone_is_one_segment():
    times = [block.seconds for block in blocks(0.01, 200)]
    assert len(last_segment(times)) == 200


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


def test_one_time_cost_is_what_cold_blocks_take_beyond_their_steady_share():
    cold = (Block(1, 2.01, 0, "trace"), Block(10, 0.1, 0))
    fit = outcome(blocks=cold, validation_seconds=(0.7, 0.2, 0.2))
    assert one_time_seconds(fit, 0.01) == pytest.approx(0.5 + 2.0 + 0.5)


def test_epochs_to_target_count_from_one():
    history = {"val_accuracy": [0.7, 0.8, 0.9], "val_loss": [0.5, 0.4, 0.3]}
    assert epochs_to_target(history, TargetSpec(metric="val_accuracy", at_least=0.8)) == 2
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.3)) == 3
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.1)) is None
