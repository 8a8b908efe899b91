"""Steady state: known warm-up dropped, shifts found, short samples said."""

from __future__ import annotations

import math
import random

import pytest

from tfopt_core.recipe import TargetSpec
from tfopt_core.records.fit import Block, FitOutcome
from tfopt_core.statistics.timing.steady import last_segment, steady_from, steady_state
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


def test_no_block_is_lost_where_neighbours_are_merged():
    noise = [1 + 0.0005 * (-1) ** n * (1 + n % 3) for n in range(4001)]
    assert len(last_segment(noise)) == 4001
    # three are merged, and two at the front are left over
    shifted = [(2 if n < 2 + 3 * 402 else 1) * x for n, x in enumerate(noise)]
    assert len(last_segment(shifted)) == 4001 - 2 - 3 * 402


def test_the_steady_state_begins_by_the_times_of_a_step():
    # blocks become longer, steps do not; then steps do, blocks do not
    noise = [1 + 0.001 * (-1) ** n * (1 + n % 3) for n in range(40)]
    longer = [Block(10, 0.1 * x) for x in noise] + [Block(40, 0.4 * x) for x in noise]
    assert steady_from(longer) == 0
    slower = [Block(20, 0.2 * x) for x in noise] + [Block(10, 0.2 * x) for x in noise]
    assert steady_from(slower) == 40


@pytest.mark.parametrize("short", [Block(10, 0.01), Block(2, 0.5)], ids=["seconds", "steps"])
def test_blocks_of_few_steps_or_seconds_are_no_samples(short):
    long = Block(20, 0.04)
    assert steady_state([short, long, short]).step_seconds == pytest.approx(0.002)
    assert steady_state([short]).step_seconds == pytest.approx(short.seconds / short.steps)


def test_twenty_blocks_are_enough_and_a_level_has_ten():
    assert steady_state(blocks(0.01, 20)).steady
    assert not steady_state(blocks(0.01, 19)).steady
    noise = [1 + 0.0005 * (-1) ** n * (1 + n % 3) for n in range(49)]
    shifted = [(2 if n >= 40 else 1) * x for n, x in enumerate(noise)]
    assert len(last_segment(shifted)) == 10


def test_a_shift_of_two_percent_shows_in_little_noise():
    noise = [1 + 0.0005 * (-1) ** n * (1 + n % 3) for n in range(40)]
    assert len(last_segment([0.102 * x for x in noise] + [0.1 * x for x in noise])) == 40


@pytest.mark.parametrize(("shift", "shows"), [(0.0245, False), (0.0265, True)])
def test_the_least_shift_that_shows_is_that_of_the_penalty(shift, shows):
    # the noise has a sigma of 1.4826 * 0.03 / sqrt 2, and halves of 40 times gain 20 * shift ** 2
    noise = [0.01 * (2, -1, 0, 1, -2)[n % 5] for n in range(80)]
    times = [math.exp(x + shift * (n < 40)) for n, x in enumerate(noise)]
    assert (len(last_segment(times)) < 80) is shows
