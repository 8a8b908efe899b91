"""How often noise of some kinds fools the verdict, by simulation of the real functions.

The rates are printed (`-s`). The thorough ones are those that docs/guide/measuring.md states.
"""

import functools
import math

import numpy as np
import pytest
from support import simulated_measurement as machines
from support.cases import mostly_thorough
from support.simulated_measurement import measured, periodic
from support.simulated_training import STALLS, Training

from tfopt_core.statistics.figures import verdict_on_interval
from tfopt_core.statistics.fit_figures import project
from tfopt_core.statistics.intervals import speedup_interval
from tfopt_core.statistics.results import Verdict

FEW, MANY = 300, pytest.param(2000, marks=pytest.mark.thorough)
FALSE = (Verdict.FASTER, Verdict.SLOWER)
PERIODS = (0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 60.0, 120.0)
MACHINES = {
    "clean": machines.clean,
    "heavy tails": machines.heavy_tails,
    "drift": machines.drifting,
    "autocorrelated": machines.autocorrelated,
    "one core taken": machines.one_core_taken,
    "stalls": machines.stalling,
    **{f"a job every {period:g} s": periodic(period) for period in PERIODS},
}
KEPT_MACHINES = ("drift", "autocorrelated", "one core taken", "a job every 1 s")


def slack(rate, trials):
    """3.5 standard errors: a sound judgement fails one such test in some 2000."""
    return 3.5 * math.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("name", mostly_thorough(MACHINES, KEPT_MACHINES))
@pytest.mark.parametrize("trials", [FEW, MANY])
def test_in_turns_equal_sides_are_called_different_in_one_of_twenty_on_any_machine(trials, name):
    source = np.random.default_rng(2)
    intervals = [measured(source, MACHINES[name]) for _ in range(trials)]
    false = np.mean([verdict_on_interval(*speedup_interval(i)[1:]) in FALSE for i in intervals])
    width = np.mean([i.high - i.low for i in intervals]) / 2
    print(f"{name}: {false:.3f} false, half-width {width:.1%}")
    assert false <= 0.05 + slack(0.05, trials)


@pytest.mark.parametrize("name", mostly_thorough(MACHINES, KEPT_MACHINES))
@pytest.mark.parametrize("trials", [FEW, MANY])
def test_in_turns_the_interval_covers_a_gain_as_often_as_it_says(trials, name):
    source, start = np.random.default_rng(3), machines.START
    truth = math.log((start + machines.WHOLE) / (start + machines.WHOLE / 1.25))
    intervals = [measured(source, MACHINES[name], 1.25) for _ in range(trials)]
    held = np.mean([i.low <= truth <= i.high for i in intervals])
    print(f"{name}: the interval holds the truth {held:.3f}")
    assert held >= 0.93 - slack(0.07, trials)


# Projections

# Stalls that come at random, and those that every epoch has.
KEPT = ("2% of steps +50 ms", "0.4 s of refill an epoch")


@functools.cache
def outcomes(name, count):
    """So many trainings that were cut short, and what each takes as a whole."""
    source, training = np.random.default_rng(5), Training(stalls=STALLS[name])
    return [training.run(source) for _ in range(count)]


@pytest.mark.parametrize("name", mostly_thorough(STALLS, KEPT))
@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_projection_is_right_on_average_with_stalls_and_refills(count, name):
    ratios = [project(o) / total for o, total in outcomes(name, count)]
    print(f"projected / true, {name}: {np.mean(ratios):.3f} (sd {np.std(ratios):.3f})")
    assert 0.97 <= np.mean(ratios) <= 1.03
