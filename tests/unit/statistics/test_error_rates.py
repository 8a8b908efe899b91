"""How often the real judgement errs, by seeded simulation (docs/guide/measuring.md).

The rates are printed (`-s`). The thorough ones are those that the guide states. A rate is allowed
3.5 standard errors: a sound judgement fails one such test in some 2000.
"""

import functools
import math

import numpy as np
import pytest
from support import simulated_measurement as machines
from support.cases import mostly_thorough
from support.measure_runs import make_judgement, make_pairs, make_run
from support.simulated_measurement import measured, periodic
from support.simulated_training import STALLS, Training

from tfopt_core.measurement.plan import schedule
from tfopt_core.recipe.model import PAIRS
from tfopt_core.statistics.claims import compare_quality
from tfopt_core.statistics.contrasts import Contrast, attribute
from tfopt_core.statistics.figures import verdict_on_interval
from tfopt_core.statistics.fit_figures import project
from tfopt_core.statistics.intervals import speedup_interval
from tfopt_core.statistics.runs import BASELINE, FULL, pairs_of
from tfopt_core.statistics.verdict import compare
from tfopt_core.trials.request import Variant

FALSE = {"faster", "slower"}
JUDGEMENT = make_judgement()


def slack(rate, trials):
    return 3.5 * math.sqrt(rate * (1 - rate) / trials)


def noisy_seconds(source, count, noise=0.03):
    """Wall times of both sides of a stack that does nothing."""
    return 10 * np.exp(source.normal(0, noise, (2, count)))


@pytest.mark.promise(20, injected="500 measurements of a stack that does nothing, from drawn times")
@pytest.mark.parametrize("trials", [500, pytest.param(4000, marks=pytest.mark.thorough)])
def test_a_stack_that_does_nothing_is_called_different_in_one_of_twenty(trials):
    source = np.random.default_rng(2)
    false = sum(
        compare(make_pairs(*noisy_seconds(source, PAIRS).tolist()), JUDGEMENT).verdict in FALSE
        for _ in range(trials)
    )
    print(f"called different at {PAIRS} pairs: {false / trials:.3f}")
    assert abs(false / trials - 0.05) <= slack(0.05, trials)


def false_verdicts_under_drift(orders, trials, noise=0.01, drift=0.05):
    """The rate for a machine that slows down linearly while a stack that does nothing is tried.

    :param orders: for each trial, the names of the variants in the order of their runs.
    """
    source, false = np.random.default_rng(3), 0
    for trial in range(trials):
        order = orders(trial)
        slowing = np.linspace(1, 1 + drift, len(order))
        seconds = 10 * slowing * np.exp(source.normal(0, noise, len(order)))
        rounds = {BASELINE: 0, FULL: 0}
        runs = []
        for name, wall in zip(order, seconds.tolist(), strict=True):
            runs.append(make_run(name, rounds[name], wall))
            rounds[name] += 1
        false += compare(runs, JUDGEMENT).verdict in FALSE
    return false / trials


@pytest.mark.parametrize("trials", [500, pytest.param(1500, marks=pytest.mark.thorough)])
def test_the_schedule_is_not_fooled_by_a_drift_that_fools_one_side_after_the_other(trials):
    variants = [Variant(BASELINE, ()), Variant(FULL, ())]

    def scheduled(trial):
        return [run.variant.name for r in range(8) for run in schedule(trial, r, variants)]

    alternating = false_verdicts_under_drift(scheduled, trials)
    one_after_the_other = false_verdicts_under_drift(lambda _: [BASELINE] * 8 + [FULL] * 8, trials)
    print(f"under drift: ABBA {alternating:.3f}, AAA..BBB {one_after_the_other:.3f}")
    assert alternating <= 0.05 + slack(0.05, trials)
    assert one_after_the_other > 0.8


def quality_passes(source, pairs, loses=0.02, wins=0.02, examples=2000):
    """Whether a model passes whose predictions differ on a share of the examples.

    :param loses: the share that it gets wrong and the baseline right; `wins` the other way.
    :returns: whether it is "not worse" at each of these numbers of pairs.
    """
    same = 1 - loses - wins
    lost, won, _ = source.multinomial(examples, [loses, wins, same], max(pairs)).T
    runs = []
    for round_, gain in enumerate(((won - lost) / examples).tolist()):
        runs += [
            make_run(BASELINE, round_, 10.0, metrics={"val_accuracy": 0.9}),
            make_run(FULL, round_, 9.0, metrics={"val_accuracy": 0.9 + gain}),
        ]
    verdicts = [compare_quality(pairs_of(runs[: 2 * n]), JUDGEMENT) for n in pairs]
    return [quality is not None and quality.verdict == "not worse" for quality in verdicts]


def test_an_equal_model_passes_as_often_as_the_page_on_measurement_says():
    source, trials = np.random.default_rng(4), 2000
    at_4, at_12 = np.mean([quality_passes(source, (4, 12)) for _ in range(trials)], axis=0)
    print(f"an equal model passes: {at_4:.3f} at 4 pairs, {at_12:.3f} at 12")
    assert abs(at_4 - 0.31) < 0.04
    assert abs(at_12 - 0.94) < 0.02


@pytest.mark.parametrize("trials", [1000, pytest.param(3000, marks=pytest.mark.thorough)])
def test_a_model_worse_by_the_tolerance_passes_in_one_of_forty(trials):
    source = np.random.default_rng(5)
    passed = sum(
        any(quality_passes(source, (PAIRS,), loses=0.0225, wins=0.0175)) for _ in range(trials)
    )
    print(f"a model worse by the tolerance passes: {passed / trials:.3f}")
    assert passed / trials <= 0.025 + slack(0.025, trials)


PLUGINS = ("p", "q", "r")
LEFT_OUT = [Contrast(name, (name,), f"without {name}") for name in PLUGINS]


def useless_plugins(source, rounds):
    """Rounds of the full stack and of each stack with one plugin left out, all equally fast."""
    seconds = 10 * np.exp(source.normal(0, 0.02, (rounds, 1 + len(PLUGINS))))
    runs = []
    for round_, (full, *others) in enumerate(seconds.tolist()):
        runs.append(make_run(FULL, round_, full, plugins=PLUGINS))
        for name, wall in zip(PLUGINS, others, strict=True):
            rest = tuple(other for other in PLUGINS if other != name)
            runs.append(make_run(f"without {name}", round_, wall, plugins=rest))
    return runs


def any_row_claims(runs, judgement):
    rows = attribute(runs, LEFT_OUT, judgement)
    assert all(row.low is not None for row in rows)
    return any(row.low > 1 or row.high < 1 for row in rows)


@pytest.mark.parametrize("trials", [500, pytest.param(2000, marks=pytest.mark.thorough)])
def test_of_three_useless_plugins_one_is_called_useful_in_at_most_one_of_twenty(trials):
    source = np.random.default_rng(6)
    false = sum(any_row_claims(useless_plugins(source, PAIRS), JUDGEMENT) for _ in range(trials))
    print(f"a useless plugin is called useful: {false / trials:.3f}")
    assert false / trials <= 0.05 + slack(0.05, trials)


FEW, MANY = 300, pytest.param(2000, marks=pytest.mark.thorough)
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
