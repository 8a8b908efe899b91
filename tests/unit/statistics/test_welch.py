"""The interval of a difference of two means against an oracle."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from tfopt_core.statistics.welch import welch_interval

# steps of a millionth: a spread below that is no timing, and the oracle divides by its square
values = st.integers(-5_000_000, 5_000_000).map(lambda value: value / 1e6)
samples = st.lists(values, min_size=2, max_size=12)


@given(samples, samples, st.sampled_from([0.05, 0.0203, 0.01]))
def test_the_interval_agrees_with_statsmodels(first, second, level):
    assume(len({*first}) > 1 or len({*second}) > 1)
    interval = welch_interval(first, second, level)
    oracle = CompareMeans(DescrStatsW(second), DescrStatsW(first))
    low, high = oracle.tconfint_diff(alpha=level, usevar="unequal")
    assert math.isclose(interval.low, low, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(interval.high, high, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(interval.difference, (low + high) / 2, rel_tol=1e-9, abs_tol=1e-9)


def test_the_degrees_of_freedom_are_satterthwaites():
    equal = welch_interval([0.0, 1.0, 2.0], [5.0, 6.0, 7.0], 0.05)
    assert equal.degrees_of_freedom == pytest.approx(4)
    one_sided = welch_interval([0.0, 1.0, 2.0], [5.0, 5.0, 5.0], 0.05)
    assert one_sided.degrees_of_freedom == pytest.approx(2)


def test_samples_that_do_not_vary_are_refused():
    with pytest.raises(ValueError, match="neither sample varies"):
        welch_interval([1.0, 1.0], [2.0, 2.0], 0.05)


def test_an_interval_needs_two_values_of_each():
    with pytest.raises(ValueError, match="needs two values, got 1"):
        welch_interval([1.0, 2.0], [1.0], 0.05)
