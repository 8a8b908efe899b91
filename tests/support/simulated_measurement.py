"""Measurements on machines that disturb them, made as a session makes them, in no time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.measure_runs import make_judgement, make_run
from tfopt_core.measurement.schedule import Schedule
from tfopt_core.records.variants import BASELINE, FULL, Variant
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.verdicts.stopping import settled
from tfopt_core.statistics.verdicts.verdict import compare

VARIANTS = (Variant(BASELINE, ()), Variant(FULL, ()))
AT_LOOKS = make_judgement(sequential=True)
FALSE = frozenset({"faster", "slower"})
# Between two runs: what a process takes to start.
START = 1.0

# The seconds of a run of this variant that begins at this time.
Walls = Callable[[str, float], float]


def verdict_of(source: np.random.Generator, walls: Walls) -> str:
    """The verdict of one measurement: rounds until a look settles it."""
    schedule, now, runs = Schedule(int(source.integers(2**31))), source.uniform(0, 1000), []

    for round_ in range(LOOKS[-1]):
        for scheduled in schedule.runs(round_, VARIANTS):
            wall = walls(scheduled.variant.name, now)
            now += wall + START
            runs.append(make_run(scheduled.variant.name, round_, wall))
        if round_ + 1 in LOOKS and settled(runs, AT_LOOKS, round_ + 1):
            break
    return compare(runs, AT_LOOKS).verdict


def rates(trials: int, seed: int, make_walls: Callable[[np.random.Generator], Walls], **how):
    """How often each verdict comes out of so many measurements."""
    source = np.random.default_rng(seed)
    verdicts = [verdict_of(source, make_walls(source), **how) for _ in range(trials)]
    return {name: verdicts.count(name) / trials for name in set(verdicts)}


def false_rate(*args, **how) -> float:
    """How often equal stacks are called different."""
    return sum(rate for verdict, rate in rates(*args, **how).items() if verdict in FALSE)


def periodic_load(period: float, busy: float = 10.0, slower: float = 1.5, work: float = 15.0):
    """A job that takes one of two CPUs for `busy` seconds of each period; both sides are equal."""

    def make_walls(source: np.random.Generator) -> Walls:
        def walls(variant: str, begin: float) -> float:
            left, now = work * float(np.exp(source.normal(0, 0.01))), begin
            while left > 0:
                phase = now % period
                until, pace = (busy, slower) if phase < busy else (period, 1.0)
                step = min(until - phase, left * pace)
                left, now = left - step / pace, now + step
            return now - begin

        return walls

    return make_walls


def stalling_stack(slower: float = 1.5, share: float = 0.2):
    """A stack that is slower in some of its runs and takes as long as the baseline on average."""
    usual = 1 / (1 - share + share * slower)

    def make_walls(source: np.random.Generator) -> Walls:
        def walls(variant: str, begin: float) -> float:
            wall = 10.0 * float(np.exp(source.normal(0, 0.01)))
            if variant == BASELINE:
                return wall
            return wall * usual * (slower if source.random() < share else 1.0)

        return walls

    return make_walls
