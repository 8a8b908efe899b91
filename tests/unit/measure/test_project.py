"""What is projected from a training that was cut short, against one whose course is known."""

from __future__ import annotations

import random

import pytest

from tfopt_core.measure.project import (
    STEADY_SECONDS,
    UNSTEADY_SECONDS,
    projected_seconds,
    step_time_is_known,
)
from tfopt_core.measure.summarize import summarize
from tfopt_core.training.clock import TimedBlock
from tfopt_core.training.outcome import FitOutcome

STEP, SET_UP, TRACE, VALIDATION, FIRST_VALIDATION, EDGE = 0.01, 1.5, 0.8, 0.4, 0.9, 0.05
STEPS_PER_EPOCH, EPOCHS = 300, 10
EPOCH = STEPS_PER_EPOCH * STEP


def cut_after_a_warm_epoch(**changes):
    """One whole epoch, half of the next, and the second validation that a cut run makes."""
    blocks = [TimedBlock(1, TRACE + STEP, 0, "trace")]
    blocks += [TimedBlock(10, 10 * STEP, 0)] * 29 + [TimedBlock(9, 9 * STEP, 0)]
    blocks += [TimedBlock(10, 10 * STEP, 1)] * 15
    first_end = SET_UP + TRACE + EPOCH + FIRST_VALIDATION
    plain = {
        "wall_seconds": 99.0, "setup_seconds": SET_UP, "blocks": tuple(blocks),
        "validation_seconds": (FIRST_VALIDATION, VALIDATION),
        "epoch_begin_seconds": (SET_UP, first_end + EDGE),
        "epoch_end_seconds": (first_end, first_end + EDGE + EPOCH / 2),
        "cut_short": True, "planned_epochs": EPOCHS, "steps_per_epoch": STEPS_PER_EPOCH,
        "epochs": 1, "steps": 450, "batch_size": 32, "replicas": 1, "trainable_parameters": 1,
        "jit_compile": False, "float32_layers": (), "stop_reason": None,
        "history": {"val_accuracy": [0.5]},
    }  # fmt: skip
    return FitOutcome(**{**plain, **changes})


def test_a_projection_is_what_the_whole_training_takes():
    whole = (
        SET_UP + TRACE + EPOCHS * EPOCH
        + FIRST_VALIDATION + (EPOCHS - 1) * VALIDATION
        + EPOCHS * EDGE
    )  # fmt: skip
    fit = summarize(cut_after_a_warm_epoch(), None)
    assert fit.projected_seconds == pytest.approx(whole)
    assert not fit.complete


def test_a_run_that_was_cut_short_has_no_final_metrics():
    assert summarize(cut_after_a_warm_epoch(), None).metrics == {}
    finished = summarize(cut_after_a_warm_epoch(cut_short=False), None)
    assert finished.metrics == {"val_accuracy": 0.5}
    assert finished.projected_seconds is None


def test_without_validation_nothing_is_projected_for_it():
    fit = cut_after_a_warm_epoch(validation_seconds=())
    assert projected_seconds(fit, 2.0, STEP) == pytest.approx(2.0 + EPOCHS * (EPOCH + EDGE))
    still = cut_after_a_warm_epoch(validation_seconds=(), epoch_begin_seconds=(SET_UP,))
    assert projected_seconds(still, 2.0, STEP) == pytest.approx(2.0 + EPOCHS * EPOCH)


def test_an_unknown_number_of_steps_is_not_projected():
    assert projected_seconds(cut_after_a_warm_epoch(steps_per_epoch=None), 2.0, STEP) is None
    assert projected_seconds(cut_after_a_warm_epoch(), 2.0, None) is None


def test_a_step_time_is_known_once_it_was_steady_for_long_enough():
    source = random.Random(1)
    blocks = [TimedBlock(10, 0.1 * (1 + source.gauss(0, 0.01)), 0) for _ in range(40)]
    enough = int(STEADY_SECONDS / 0.1) + 2
    assert step_time_is_known(blocks[:enough])
    assert not step_time_is_known(blocks[: enough // 2])
    cold = [TimedBlock(b.steps, b.seconds, 0, "cache") for b in blocks]
    assert not step_time_is_known(cold)
    falling = [TimedBlock(10, 0.4 * 0.9**i, 0) for i in range(20)]
    assert not step_time_is_known(falling)


def test_a_run_that_never_gets_steady_ends_all_the_same_and_projects_its_mean_step():
    falling = [TimedBlock(10, 0.2 * 0.99**i, 0) for i in range(60)]
    assert sum(block.seconds for block in falling) > UNSTEADY_SECONDS
    assert step_time_is_known(falling)
    source = random.Random(2)
    seconds = [w * STEP * (1 + source.gauss(0, 0.01)) for w in [10] * 30 + [30] * 15]
    slow_half = [TimedBlock(10, s, 0) for s in seconds]
    fit = summarize(cut_after_a_warm_epoch(blocks=tuple(slow_half)), None)
    assert not fit.steady
    mean = sum(seconds) / 450
    assert fit.projected_seconds == pytest.approx(
        SET_UP + (FIRST_VALIDATION - VALIDATION)
        + EPOCHS * (STEPS_PER_EPOCH * mean + VALIDATION + EDGE)
    )  # fmt: skip
