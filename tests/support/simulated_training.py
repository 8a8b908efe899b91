"""Trainings of known length whose steps stall now and then, timed and cut as real ones are."""

from collections.abc import Callable

import attrs
import numpy as np

from support.measure_runs import make_outcome
from tfopt_core.recipe.model import LONGEST_WARM_SECONDS
from tfopt_core.training.clock import BLOCK_STEPS
from tfopt_core.training.messages import Block, FitOutcome
from tfopt_core.workers.turns import Pacing

SET_UP, TRACE = 1.0, 0.8

# The seconds of an epoch's steps; the source draws what is random.
Epoch = Callable[[np.random.Generator, int], np.ndarray]


@attrs.frozen(kw_only=True)
class Training:
    """A training: its epochs, and what each of their steps takes.

    :param step: seconds of a step without stalls.
    :param noise: standard deviation of the logarithm of a step's seconds.
    :param stalls: drawn for each epoch, added to its steps.
    :param edge: seconds between two epochs.
    """

    epochs: int = 80
    steps: int = 150
    step: float = 0.005
    noise: float = 0.05
    stalls: Epoch = lambda source, steps: np.zeros(steps)
    edge: float = 0.02

    def run(self, source) -> tuple[FitOutcome, float]:
        """What a process tells of it that is cut short, and what the whole training takes."""
        quiet = self.step * np.exp(source.normal(0, self.noise, (self.epochs, self.steps)))
        stalls = np.stack([self.stalls(source, self.steps) for _ in range(self.epochs)])
        seconds = quiet + stalls
        seconds[0, 0] += TRACE
        total = SET_UP + float(seconds.sum()) + self.epochs * self.edge
        blocks, edges = self._blocks_until_cut(seconds)
        done = sum(block.steps for block in blocks)
        return make_outcome(
            wall_seconds=total, setup_seconds=SET_UP, blocks=tuple(blocks), epoch_end_seconds=(),
            edge_seconds=edges, cut_short=done < self.epochs * self.steps,
            planned_epochs=self.epochs, steps_per_epoch=self.steps, epochs=done // self.steps,
            steps=done, history={},
        ), total  # fmt: skip

    def _blocks_until_cut(self, seconds) -> tuple[list[Block], tuple[float, ...]]:
        blocks, now = [], 0.0
        cuts = Pacing(
            epochs=self.epochs, steps_per_epoch=self.steps, warm_seconds=LONGEST_WARM_SECONDS,
            now=lambda: int(now * 1e9),
        )  # fmt: skip
        for epoch, of_epoch in enumerate(seconds):
            for place, chunk in enumerate(of_epoch.reshape(-1, BLOCK_STEPS)):
                cold = "trace" if epoch == place == 0 else ""
                blocks.append(Block(BLOCK_STEPS, float(chunk.sum()), epoch, cold))
                now += blocks[-1].seconds
                if cuts(blocks):
                    return blocks, (self.edge,) * epoch
        return blocks, (self.edge,) * (self.epochs - 1)


def some_steps(share: float, seconds: float) -> Epoch:
    """Stalls at random steps, a share of all."""
    return lambda source, steps: seconds * (source.random(steps) < share)


def every_nth_step(nth: int, seconds: float) -> Epoch:
    """A stall at every nth step, from a random one on."""

    def stalls(source, steps):
        return seconds * ((np.arange(steps) + source.integers(nth)) % nth == 0)

    return stalls


def first_step(seconds: float) -> Epoch:
    """What an epoch's first step waits for: a shuffle buffer that is filled again."""
    return lambda source, steps: seconds * np.exp(source.normal(0, 0.05)) * (np.arange(steps) == 0)


STALLS = {
    "clean": lambda source, steps: np.zeros(steps),
    "2% of steps +50 ms": some_steps(0.02, 0.05),
    "every 200th step +0.4 s": every_nth_step(200, 0.4),
    "0.1 s of refill an epoch": first_step(0.1),
    "0.4 s of refill an epoch": first_step(0.4),
}
