"""The arithmetic against an oracle, and its error rates by simulation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import DescrStatsW

from tfopt_core.statistics.intervals import (
    LEVEL,
    log_ratios,
    pairs_needed,
    t_interval,
)

samples = st.lists(st.floats(-5, 5), min_size=2, max_size=12)


@given(samples, st.sampled_from([0.05, 0.0125, 0.01]))
def test_the_interval_agrees_with_statsmodels(values, level):
    interval = t_interval(values, level)
    oracle = DescrStatsW(values)
    low, high = oracle.tconfint_mean(alpha=level)
    assert math.isclose(interval.mean, oracle.mean, abs_tol=1e-9)
    assert math.isclose(interval.low, low, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(interval.high, high, rel_tol=1e-9, abs_tol=1e-9)


def test_an_interval_needs_two_values():
    with pytest.raises(ValueError, match="needs two values, got 1"):
        t_interval([1.0], 0.05)


def test_a_ratio_needs_positive_figures_and_equal_numbers_of_them():
    with pytest.raises(ValueError, match="positive"):
        log_ratios([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="zip"):
        log_ratios([1.0], [1.0, 1.0])


def _false_alarms(trials, decide):
    source = random.Random(7)
    return sum(decide([source.gauss(0, 1) for _ in range(12)]) for _ in range(trials)) / trials


def _excludes_zero(values, level):
    interval = t_interval(values, level)
    return interval.low > 0 or interval.high < 0


def test_a_fixed_number_of_pairs_errs_in_one_of_twenty():
    rate = _false_alarms(4000, lambda values: _excludes_zero(values[:4], LEVEL))
    assert abs(rate - 0.05) < 0.012  # 3.5 standard errors


def test_a_smaller_effect_needs_more_pairs():
    small = pairs_needed(t_interval([0.01, -0.02, 0.03, 0.0], 0.05))
    large = pairs_needed(t_interval([0.05, 0.02, 0.07, 0.04 - 0.05], 0.05))
    assert small > large > 4
