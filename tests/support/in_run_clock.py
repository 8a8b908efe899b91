"""A fake clock and a fake training: an in-run contrast without TensorFlow, in no time."""

from __future__ import annotations

import random
from collections.abc import Callable

from tfopt_core.records.in_run import InRun
from tfopt_core.training.loops.exact_loops import Loop
from tfopt_core.trials.alternate import BlockTimer, InRunContrast
from tfopt_core.trials.explore import Explorer

A, B = "1 step a call", "4 steps a call"


class Hands:
    """A clock whose hands the test moves; in nanoseconds, as `perf_counter_ns`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> int:
        return round(self.now * 1e9)


def make_contrast(
    hands: Hands, *, level: float = 0.0203, seed: int = 1, **changes
) -> InRunContrast:
    """B against A on this clock."""
    return InRunContrast(B, A, level, random.Random(seed), BlockTimer(hands), **changes)


def drive(
    contrast: InRunContrast,
    hands: Hands,
    step_seconds: Callable[[bool, float], float],
    *,
    steps: int = 20,
    calls: int = 100_000,
) -> list[bool]:
    """Train until there is a result; who made each call.

    :param step_seconds: of the alternative (True) or the reference, at a time in seconds.
    :param steps: that each call makes.
    """
    made = []
    for _ in range(calls):
        alternative = contrast.choose()
        if contrast.result is not None:
            break
        made.append(alternative)
        hands.now += steps * step_seconds(alternative, hands.now)
        contrast.timer.after_call(steps, traced=False)
    return made


def outcome(
    source: random.Random, *, gain: float = 1.0, noise: float = 0.01, drift: float = 0.0
) -> InRun:
    """One simulated contrast.

    :param gain: seconds a step of the reference / of the alternative.
    :param noise: standard deviation of the logarithm of a block's time.
    :param drift: by which share a step becomes slower each second.
    """
    hands = Hands()
    contrast = make_contrast(hands, seed=source.randrange(2**31))

    def step_seconds(alternative: bool, now: float) -> float:
        slower = (1 + drift * now) * 2.718281828 ** source.gauss(0, noise)
        return 0.001 * slower / (gain if alternative else 1)

    drive(contrast, hands, step_seconds)
    assert contrast.result is not None
    return contrast.result


def train(
    explorer: Explorer,
    hands: Hands,
    step_seconds: Callable[[Loop], float],
    *,
    steps: int = 10_000,
    steps_per_epoch: int = 1_000,
    first_call: Callable[[Loop], float] = lambda loop: 0.3,
    fails: Callable[[Loop], bool] = lambda loop: False,
) -> list[Loop]:
    """What the switching half does, on a fake clock: the loop of each call until one is kept."""
    made: list[Loop] = []
    done, seen = 0, set()
    while done < steps and explorer.kept is None:
        if done % steps_per_epoch == 0:
            hands.now += 5.0  # a validation
            explorer.cut()
        loop = explorer.choose()
        left = steps_per_epoch - done % steps_per_epoch
        if loop.steps > left:
            loop = explorer.offer.reference
        first = loop not in seen
        seen.add(loop)
        if first and fails(loop):
            explorer.failed(loop, "raised ValueError: no")
            loop = explorer.offer.reference
        made.append(loop)
        hands.now += loop.steps * step_seconds(loop) + (first_call(loop) if first else 0.0)
        done += loop.steps
        explorer.called(loop, loop.steps, traced=first)
    return made
