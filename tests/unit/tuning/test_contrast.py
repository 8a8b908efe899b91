"""When the pairs of a trial decide, and what."""

from __future__ import annotations

import math

import pytest

from tfopt_core.tuning.contrast import contrasted, decide, decide_drop
from tfopt_core.tuning.results import TrialOutcome


def logs(*ratios: float) -> list[float]:
    return [math.log(ratio) for ratio in ratios]


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((0.5,), TrialOutcome.WORSE),
        ((1.4,), None),
        ((1.4, 1.3), TrialOutcome.IN),
        ((1.05, 0.99), TrialOutcome.NO_GAIN),
        ((1.06, 0.96), None),
        ((1.02, 0.92), TrialOutcome.NO_GAIN),
        ((1.06, 0.96, 0.93), None),
        ((1.06, 0.96, 0.93, 1.0), TrialOutcome.NO_GAIN),
        ((1.1, 1.11, 1.09, 1.1), TrialOutcome.IN),
        ((1.6, 0.7, 1.6, 0.7, 1.6, 0.7), TrialOutcome.NO_GAIN),
        ((1.2, 0.98, 1.1, 0.99, 1.1, 1.1), TrialOutcome.IN),
    ],
)
def test_a_plugin_goes_in_if_its_pairs_agree_on_a_gain(ratios, outcome):
    assert decide(logs(*ratios)).outcome is outcome


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((0.5,), None),
        ((0.9, 0.95), TrialOutcome.DROPPED),
        ((1.3, 1.2), TrialOutcome.STAYS),
        ((1.01, 1.02), None),
        ((1.02, 1.02, 1.0, 1.01), TrialOutcome.STAYS),
        ((1.05, 0.98, 1.02, 1.0, 1.03, 0.99), TrialOutcome.DROPPED),
        ((1.001, 1.002, 1.0, 1.001), TrialOutcome.DROPPED),
        ((1.6, 0.7, 1.6, 0.7, 1.6, 0.7), TrialOutcome.DROPPED),
        ((1.1, 1.11, 1.09, 1.1), TrialOutcome.STAYS),
    ],
)
def test_a_plugin_stays_only_if_it_is_missed(ratios, outcome):
    assert decide_drop(logs(*ratios)).outcome is outcome


def test_one_pair_has_no_interval():
    one = contrasted(logs(1.5))
    assert (one.low, one.high, one.confidence) == (None, None, None)
    two = contrasted(logs(1.5, 1.4))
    assert two.low < two.ratio < two.high
    assert two.confidence == pytest.approx(0.8)
