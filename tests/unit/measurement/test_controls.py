"""The control that sleeps takes as much longer as it says, and a selftest says what came out."""

import io
import re

import attrs
import pytest
from support.measure_across import make_measured
from support.measure_runs import make_judgement, make_pairs

from tfopt_core.measurement.selftest import ControlTrial, sleeping
from tfopt_core.report.results.selftest import render_selftest
from tfopt_core.report.style.console import make_console
from tfopt_core.statistics.results import Verdict


class Clock:
    """Counts seconds; a sleep takes 60 µs longer than it was asked to, as on a real system."""

    def __init__(self):
        self.now, self.slept, self.sleeps = 0.0, 0.0, 0

    def work(self, iterator):
        self.now += 0.002
        return iterator

    def sleep(self, seconds):
        self.now += seconds + 60e-6
        self.slept += seconds + 60e-6
        self.sleeps += 1


def test_the_sleeping_plugin_takes_its_share_exactly_in_few_sleeps():
    clock = Clock()
    slow = sleeping(clock.work, 0.05, now=lambda: clock.now, sleep=clock.sleep)
    for _ in range(2000):
        assert slow("batch") == "batch"
    assert clock.slept == pytest.approx(0.05 * 2000 * 0.002, rel=0.03)
    assert clock.sleeps <= 41


def trial(control, ratio):
    baseline = [10.0, 10.1, 9.9, 10.05, 10.02, 9.97, 10.11, 9.94]
    noise = [0.0, -0.02, 0.03, 0.01, -0.01, 0.02, 0.0, -0.03]
    runs = make_pairs(baseline, [(b + n) / ratio for b, n in zip(baseline, noise, strict=True)])
    judgement = make_judgement(equivalence="exact")
    return ControlTrial(control, make_measured("i", (), runs=runs, judgement=judgement))


def printed(trials):
    stream = io.StringIO()
    make_console(width=80, file=stream, environ={}).print(render_selftest(trials))
    return " ".join(stream.getvalue().split())


@pytest.mark.promise(
    20, injected="results of `tfopt selftest` in which a plugin that does nothing is faster"
)
def test_a_no_op_must_not_come_out_different_and_a_sleeper_must():
    assert trial("nothing", 1.0).as_expected
    assert not trial("nothing", 1.2).as_expected
    assert not trial("nothing", 0.8).as_expected
    assert trial("sleeps", 0.95).as_expected
    assert not trial("sleeps", 1.0).as_expected


def test_a_trial_without_a_verdict_is_not_as_expected():
    none = trial("nothing", 1.0)
    failed = attrs.evolve(none.results.comparison, verdict=Verdict.NONE)
    assert not ControlTrial("nothing", attrs.evolve(none.results, comparison=failed)).as_expected


def test_the_page_counts_both_controls_and_says_what_failed():
    text = printed([trial("nothing", 1.0), trial("sleeps", 0.95)])
    assert "tell a loss of 5% from nothing on this machine" in text
    assert re.search(r"an interval reaches 0\.\d% to either side, after ", text)
    text = printed([trial("nothing", 1.2), trial("nothing", 1.0), trial("sleeps", 1.0)])
    assert "neither faster nor slower 1 of 2" in text
    assert "slower 0 of 1" in text
    assert "a loss of 5% was not found in 1 of the selftests" in text
    assert "came out faster or slower 1 times" in text
