"""Measurements in turns on machines whose speed changes, made in no time.

A machine is a function that returns its speed, 1 at best, every `TICK` seconds of a measurement.
"""

from collections.abc import Callable

import numpy as np

from tfopt_core.recipe.model import PAIRS, WARM_SECONDS
from tfopt_core.statistics.intervals import Interval, t_interval
from tfopt_core.workers.turns import TURN_SECONDS

TICK = 0.01
# What a side trains alone, and what it trains in all; two processes differ by this in any case.
START, WHOLE, PROCESSES = 2.0, 60.0, 0.01

Machine = Callable[[np.random.Generator, int], np.ndarray]


def measured(source: np.random.Generator, machine: Machine, gain: float = 1.0) -> Interval:
    """The interval of one measurement of a stack whose steps are so many times as fast."""
    ticks = int(PAIRS * 2 * (START + WARM_SECONDS + 2) / TICK)
    speed, at, ratios = machine(source, ticks), 0, []
    for _ in range(PAIRS):
        totals, at = _group(source, speed, at, gain)
        ratios.append(np.log(totals[0] / totals[1]))
    return t_interval([float(ratio) for ratio in ratios])


def _group(
    source: np.random.Generator, speed: np.ndarray, at: int, gain: float
) -> tuple[list[float], int]:
    """The total seconds of each side, and the tick at the end of the group."""
    pace = np.array([1.0, gain]) * np.exp(source.normal(0, PROCESSES, 2))
    starts, turn = [0.0, 0.0], int(TURN_SECONDS / TICK)
    for side in source.permutation(2):
        begun, work = at, 0.0
        while work < START:
            work += speed[at] * TICK
            at += 1
        starts[side] = (at - begun) * TICK
    seconds, done = [0.0, 0.0], [0.0, 0.0]
    while min(seconds) < WARM_SECONDS:
        for side in source.permutation(2):
            done[side] += float(speed[at : at + turn].sum()) * TICK * pace[side]
            seconds[side] += turn * TICK
            at += turn
    return [starts[side] + WHOLE * seconds[side] / done[side] for side in range(2)], at


def clean(source: np.random.Generator, ticks: int) -> np.ndarray:
    """A machine of its own."""
    return np.ones(ticks)


def heavy_tails(source: np.random.Generator, ticks: int) -> np.ndarray:
    """Short hitches, some of them long."""
    return 1 / (1 + 0.05 * np.abs(source.standard_t(2, ticks)))


def drifting(source: np.random.Generator, ticks: int) -> np.ndarray:
    """It becomes slower, as when it gets hot."""
    return np.linspace(1.0, 0.7, ticks)


def autocorrelated(source: np.random.Generator, ticks: int) -> np.ndarray:
    """AR(1) with a memory of two seconds: neighbours on a shared machine."""
    from scipy.signal import lfilter

    keeps = np.exp(-TICK / 2.0)
    noise = source.normal(0, 0.15 * np.sqrt(1 - keeps**2), ticks)
    return np.exp(-np.abs(lfilter([1.0], [1.0, -keeps], noise)))


def one_core_taken(source: np.random.Generator, ticks: int) -> np.ndarray:
    """A job that comes and goes every few seconds and takes one of two CPUs."""
    lengths = source.uniform(2.0, 4.0, int(ticks * TICK / 2) + 2)
    busy = np.repeat(np.arange(len(lengths)) % 2, (lengths / TICK).astype(int))
    return 1 - 0.4 * busy[:ticks]


def stalling(source: np.random.Generator, ticks: int) -> np.ndarray:
    """Stalls of half a second that hit either side."""
    speed = np.ones(ticks)
    for at in source.integers(0, ticks, source.poisson(ticks * TICK / 10)):
        speed[at : at + int(0.5 / TICK)] = 0.05
    return speed


def periodic(period: float) -> Machine:
    """A job that takes one of two CPUs for 40% of each period."""

    def machine(source: np.random.Generator, ticks: int) -> np.ndarray:
        phase = (np.arange(ticks) * TICK + source.uniform(0, period)) % period
        return np.where(phase < 0.4 * period, 0.6, 1.0)

    return machine
