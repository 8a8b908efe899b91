"""How often noise of some kinds fools the verdict, by simulation of the real functions.

The rates are printed (`-s`). The thorough ones are those that docs/guide/measuring.md states.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from support.cases import mostly_thorough
from support.measure_runs import make_judgement, make_run
from support.simulated_measurement import false_rate, periodic_load, rates, stalling_stack
from support.simulated_training import STALLS, Training

from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.statistics.intervals import FIXED_LEVEL, LOOKS, log_ratios, t_interval
from tfopt_core.statistics.timing.cutting import CutRule
from tfopt_core.statistics.timing.projection import project
from tfopt_core.statistics.timing.summary import summarize
from tfopt_core.statistics.verdicts.verdict import compare

FEW, MANY = 300, pytest.param(2000, marks=pytest.mark.thorough)


def slack(rate, trials):
    """3.5 standard errors: a sound judgement fails one such test in some 2000."""
    return 3.5 * math.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("period", mostly_thorough([60.0, 62.0, 64.0, 70.0], [64.0]))
@pytest.mark.parametrize("trials", [FEW, MANY])
def test_a_periodic_load_does_not_keep_step_with_the_order(trials, period):
    load = periodic_load(period)
    false = false_rate(trials, 2, load)
    print(f"a job of 10 s every {period:.0f} s: {false:.3f} false, of runs one after the other")
    assert false <= 0.10 + slack(0.10, trials)


@pytest.mark.parametrize("trials", [FEW, MANY])
def test_stalls_of_one_side_that_nothing_counts_are_missed_by_eight_pairs_in_one_of_six(trials):
    found = rates(trials, 4, stalling_stack())
    print(f"stalls in a fifth of its runs, uncounted: {found}")
    assert found.get("faster", 0.0) <= 0.17 + slack(0.17, trials)


# Projections

# Stalls that come at random, and those that every epoch has.
KEPT = ("2% of steps +50 ms", "3 s of refill an epoch")


@functools.cache
def outcomes(name, count):
    """So many trainings, cut as real ones are, and what each takes as a whole."""
    source, training = np.random.default_rng(5), Training(stalls=STALLS[name])
    known = CutRule(epochs=training.epochs, steps_per_epoch=training.steps)
    return [training.run(source, known) for _ in range(count)]


@pytest.mark.parametrize("name", mostly_thorough(STALLS, KEPT))
@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_projection_is_right_on_average_with_stalls_and_refills(count, name):
    ratios = [project(o).seconds / total for o, total in outcomes(name, count)]
    print(f"projected / true, {name}: {np.mean(ratios):.3f} (sd {np.std(ratios):.3f})")
    assert 0.97 <= np.mean(ratios) <= 1.03


@pytest.mark.parametrize("name", mostly_thorough(STALLS, KEPT))
@pytest.mark.parametrize("trials", [FEW, MANY])
def test_projected_measurements_err_as_seldom_as_whole_ones(trials, name):
    """Each takes other runs of those that were simulated; the stack is as fast as the baseline."""
    runs = [summarize(outcome, None) for outcome, _ in outcomes(name, trials)]
    source, judgement = np.random.default_rng(7), make_judgement(sequential=True, projected=True)
    false = held = 0
    for _ in range(trials):
        drawn = source.choice(trials, (LOOKS[-1], 2), replace=False)
        pairs = [
            make_run(variant, round_, 1.0, fit=runs[index])
            for round_, both in enumerate(drawn.tolist())
            for variant, index in zip((BASELINE, FULL), both, strict=True)
        ]
        for look in LOOKS:
            verdict = compare(pairs[: 2 * look], judgement).verdict
            if verdict not in ("inconclusive", "quality open"):
                break
        false += verdict in ("faster", "slower") or verdict == "quality open"
        seconds = [[runs[i].projected_seconds for i in side] for side in drawn[:8].T.tolist()]
        interval = t_interval(log_ratios(*seconds), FIXED_LEVEL)
        held += interval.low <= 0 <= interval.high
    print(f"{name}: {false / trials:.3f} false, the interval holds the truth {held / trials:.3f}")
    assert false / trials <= 0.05 + slack(0.05, trials)
    assert held / trials >= 0.93 - slack(0.07, trials)
