"""What fits a budget, and what a round takes."""

from __future__ import annotations

import attrs
import pytest
from support.measure_runs import make_run

from tfopt_core.measurement.pace import (
    SHORTEST_SECONDS,
    SPARE_SECONDS,
    Pace,
    World,
    round_seconds,
)
from tfopt_core.records.fit import Block
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.timing.cutting import LEAST_SECONDS


def run_that_took(variant, seconds, **changes):
    return attrs.evolve(make_run(variant, 0, seconds, **changes), process_seconds=seconds)


def variants(*names):
    return [Variant(name, ()) for name in names]


def pace(budget, earlier=0.0, **wanted):
    clock = [50.0]
    world = World(now=lambda: clock[0], counters=None)
    return Pace(world, budget, earlier=earlier, **wanted), clock


def test_a_round_is_the_sum_of_its_variants_means():
    runs = [run_that_took("baseline", 10.0), run_that_took("baseline", 12.0),
            run_that_took("full", 5.0)]  # fmt: skip
    assert round_seconds(runs, variants("baseline", "full")) == pytest.approx(16.0)


def test_a_variant_that_was_not_run_yet_counts_as_the_mean_of_the_others():
    runs = [run_that_took("baseline", 10.0), run_that_took("full", 6.0)]
    assert round_seconds(runs, variants("baseline", "full", "without p")) == pytest.approx(24.0)


def test_without_a_run_nobody_knows():
    with pytest.raises(ValueError, match="no run"):
        round_seconds([], variants("baseline"))


def test_what_went_before_a_resume_counts_against_the_budget():
    measured, clock = pace(100.0, earlier=60.0)
    clock[0] += 30.0
    assert measured.elapsed == pytest.approx(90.0)
    assert measured.fits(10.0)
    assert not measured.fits(11.0)
    assert measured.fits(11.0, slack=1.2)
    assert not measured.spent
    clock[0] += 11.0
    assert measured.spent


def test_without_a_budget_everything_fits():
    measured, clock = pace(None)
    clock[0] += 1e9
    assert measured.fits(1e9)
    assert not measured.spent


def test_more_time_must_fit_before_the_first_verdict_too():
    measured, clock = pace(300.0, first_verdict=60.0)
    clock[0] += 20.0
    assert measured.fits_first(40.0)
    assert not measured.fits_first(41.0)
    assert measured.fits(41.0)
    assert measured.seconds_to_first_verdict == 40.0
    clock[0] += 100.0
    assert measured.seconds_to_first_verdict == 0.0
    assert pace(300.0)[0].seconds_to_first_verdict is None


def run_with_steps(seconds, warm):
    """A run that traced for 2 s, and then made timed steps for so long."""
    run = run_that_took("baseline", seconds)
    blocks = (Block(1, 2.0, 0, "trace"), Block(10, warm, 0, ""))
    return attrs.evolve(run, fits=(attrs.evolve(run.fits[0], blocks=blocks),))


def test_runs_are_cut_sooner_where_the_first_verdict_would_be_late():
    measured, clock = pace(300.0, first_verdict=80.0)
    assert measured.longest_run([], 0, 10.0) == 10.0
    assert measured.longest_run([], 8, 10.0) == SHORTEST_SECONDS  # 10 s each, 7 of them beside
    clock[0] += 20.0
    runs = [run_with_steps(20.0, warm=15.0)]
    assert measured.longest_run(runs, 6, 10.0) == pytest.approx((60.0 - SPARE_SECONDS) / 6 - 5.0)
    assert measured.longest_run(runs, 12, 10.0) == pytest.approx(SHORTEST_SECONDS * 15 / 18)
    # where most of a training is no timed step, few seconds of these take as long
    assert measured.longest_run([run_with_steps(20.0, warm=6.0)], 6, 10.0) == LEAST_SECONDS
    assert measured.longest_run(runs, 1, 10.0) == 10.0
    assert pace(300.0)[0].longest_run(runs, 4, 10.0) == 10.0
