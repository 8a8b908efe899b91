"""The time that a measurement has used, and whether more rounds fit its budget, in seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.records.counters import Counters
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.timing.cutting import LEAST_SECONDS
from tfopt_core.trials.request import Request
from tfopt_core.workers.telemetry import read_counters

# The time of a run outside of its training: mostly starting and ending its process.
PROCESS_SECONDS = 1.0
# The same for a script, which also reads its data and builds its model; before the first run.
BESIDE_SECONDS = 7.0
# No run is cut sooner to have a verdict in time: it would tell too little.
SHORTEST_SECONDS = 3.0
# So much sooner the pairs of a first verdict should end: some runs take longer than those before.
SPARE_SECONDS = 5.0
# An estimate from one pair is too rough to give up four pairs that would only just not fit.
SURELY_TOO_LONG = 1.2
# How many times its budget a first contact may take for these pairs: the user has named none, and
# on a busy machine a verdict is late rather than missing.
FOR_A_FIRST_VERDICT = 3.0


def budget_of(request: Request) -> float | None:
    """Return the seconds that a measurement may take, None if its number of pairs is fixed."""
    measure = request.recipe.measure
    return measure.budget_seconds if measure.pairs == "auto" else None


@attrs.frozen
class World:
    """The clock and the machine around a measurement, which tests replace.

    `now` counts seconds from any start.
    """

    now: Callable[[], float] = time.monotonic
    counters: Callable[[], Counters] = read_counters


@attrs.define
class Pace:
    """The time that a measurement has taken, against its budget.

    :param budget: the budget, None if the number of pairs is fixed.
    :param earlier: the time that was used before the measurement was resumed.
    :param first_verdict: the time by which a first verdict is wanted, None for no such wish; more
        pairs may follow within the budget.
    """

    world: World
    budget: float | None
    earlier: float = 0.0
    first_verdict: float | None = None
    _begun: float = attrs.field(init=False)

    @_begun.default
    def _begin(self) -> float:
        return self.world.now()

    @property
    def elapsed(self) -> float:
        """The time since it began, with the time before a resume."""
        return self.earlier + self.world.now() - self._begun

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.budget is not None and self.elapsed > self.budget

    def fits(self, seconds: float, slack: float = 1.0) -> bool:
        """Return whether this much more time fits the budget, or `slack` times the budget."""
        return self.budget is None or self.elapsed + seconds <= slack * self.budget

    @property
    def seconds_to_first_verdict(self) -> float | None:
        """The seconds that are left until the first verdict, None if there is no such wish."""
        return None if self.first_verdict is None else max(0.0, self.first_verdict - self.elapsed)

    def fits_first(self, seconds: float) -> bool:
        """Return whether this much more time fits before the first verdict, and the budget."""
        wanted = self.first_verdict is None or self.elapsed + seconds <= self.first_verdict
        return wanted and self.fits(seconds)

    def worth_cutting(self, training_seconds: float) -> bool:
        """Return whether runs that are cut short save enough of such a training."""
        return self.first_verdict is None or training_seconds > 2 * SHORTEST_SECONDS

    def longest_run(self, runs: Sequence[RunResult], missing: int, longest: float) -> float:
        """Return after how many seconds of timed steps a run is cut, to have a verdict in time.

        :param runs: those so far, which tell what a run takes beside its timed steps.
        :param missing: how many runs are missing until the first verdict.
        :param longest: the seconds that the budget allows.
        """
        if self.first_verdict is None or not missing:
            return longest
        known = [run.process_seconds - warm_seconds(run) for run in runs if run.process_seconds]
        beside = sum(known) / len(known) if known else BESIDE_SECONDS
        each = ((self.seconds_to_first_verdict or 0.0) - SPARE_SECONDS) / missing - beside
        # where validation takes most of an epoch, so many seconds of steps take several times that
        shortest = max(LEAST_SECONDS, SHORTEST_SECONDS * timed_share(runs))
        return max(shortest, min(longest, each))


def round_seconds(runs: Sequence[RunResult], variants: Sequence[Variant]) -> float:
    """Return the seconds of a round of these variants, from their runs so far.

    A variant without a run counts as the mean of the others.

    :raises ValueError: without a single run.
    """
    known: dict[str, list[float]] = {}
    for run in runs:
        if run.process_seconds is not None:
            known.setdefault(run.variant, []).append(run.process_seconds)
    if not known:
        raise ValueError("no run says how long one takes")
    means = {name: sum(taken) / len(taken) for name, taken in known.items()}
    usual = sum(means.values()) / len(means)
    return sum(means.get(variant.name, usual) for variant in variants)


def warm_seconds(run: RunResult) -> float:
    """Return the seconds of the steps of a run that were timed, without those that were traced."""
    blocks = (block for fit in run.timed_fits for block in fit.blocks if not block.cold)
    return math.fsum(block.seconds for block in blocks)


def timed_share(runs: Sequence[RunResult]) -> float:
    """Return the least share that the timed steps of a run had of its training behind the steps
    that were traced; 1 before the first run."""
    shares = []
    for run in runs:
        cold = (block.seconds for fit in run.timed_fits for block in fit.blocks if block.cold)
        behind = (run.wall_seconds or 0.0) - math.fsum(cold)
        if run.ok and behind > 0:
            shares.append(min(1.0, warm_seconds(run) / behind))
    return min(shares, default=1.0)


def estimated_round(prepared: Prepared, variants: int) -> float | None:
    """Return the seconds of a round of full trainings, estimated before the first; None if unknown.
    It is assumed that the stack does not change them."""
    # several processes take many seconds to start, and their gain is unknown
    if prepared.training_seconds is None or prepared.several_processes:
        return None
    return variants * (prepared.training_seconds + PROCESS_SECONDS)
