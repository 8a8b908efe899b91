"""Further contrasts: said where the runs show them, and not otherwise."""

from __future__ import annotations

import pytest
from support.measure_runs import make_judgement, make_run

from tfopt_core.recipe import TargetSpec
from tfopt_core.statistics.verdicts.observations import observations, spread_over_epochs

CALM, WILD = (2.0, 0.50, 0.51, 0.49), (2.0, 0.5, 0.7, 0.3)
PENALIZED = {"val_loss": 0.9, "val_data_loss": 0.5}


def pairs(before, after, rounds=4, **changes):
    runs = []
    for round_ in range(rounds):
        shift = 1 + round_ / 50
        for variant, history in (("baseline", before), ("full", after)):
            runs.append(
                make_run(variant, round_, 10.0, metrics=PENALIZED, **changes,
                         history={"val_data_loss": tuple(v * shift for v in history)})
            )  # fmt: skip
    return runs


def test_the_spread_leaves_the_first_epoch_out():
    run = make_run("full", 0, 1.0, history={"val_data_loss": (9.0, 1.0, 3.0)})
    assert spread_over_epochs(run) == pytest.approx(2**0.5)
    short = make_run("full", 0, 1.0, history={"val_data_loss": (9.0, 1.0)})
    assert spread_over_epochs(short) is None


def test_a_calmer_loss_is_said_with_its_interval():
    [said] = observations(pairs(WILD, CALM), make_judgement())
    assert said.startswith("val_data_loss spreads less over the epochs after the first: 0.05 times")
    [said] = observations(pairs(CALM, WILD, rounds=6), make_judgement())
    assert "spreads more" in said
    assert "6 pairs" in said


def test_without_penalties_nothing_is_said_of_the_spread():
    runs = [make_run(v, r, 1.0, history={"val_data_loss": WILD}, metrics={})
            for r in range(4) for v in ("baseline", "full")]  # fmt: skip
    assert observations(runs, make_judgement()) == ()


def test_too_few_pairs_say_nothing():
    assert observations(pairs(WILD, CALM)[:6], make_judgement()) == ()


TARGET = make_judgement(target=TargetSpec(metric="val_accuracy", at_least=0.8))


def with_epochs(before, after):
    return [
        make_run(variant, round_, 1.0, epochs_to_target=epochs)
        for round_, both in enumerate(zip(before, after, strict=True))
        for variant, epochs in zip(("baseline", "full"), both, strict=True)
    ]


def test_fewer_epochs_to_the_target_are_said_with_their_interval():
    [said] = observations(with_epochs([8, 9, 8, 9], [5, 5, 4, 6]), TARGET)
    assert said == (
        "the target is reached in fewer epochs: 8.5 -> 5.0 on average "
        "(change -4.4 to -2.6, 4 pairs)"
    )
    [said] = observations(with_epochs([8, 9, 8, 9], [9, 8, 9, 8]), TARGET)
    assert "neither surely fewer nor surely more" in said


def test_a_target_that_was_missed_is_said_and_not_averaged():
    [said] = observations(with_epochs([8, None, 8, 9], [5, 5, 4, 6]), TARGET)
    assert said == "the target was never reached in 1 of 4 baseline runs"
