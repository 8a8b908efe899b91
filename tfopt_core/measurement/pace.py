"""The time that a measurement has used, and whether more rounds fit its budget, in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.measurement.busy import watch_idle
from tfopt_core.records.counters import Counters
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import Variant
from tfopt_core.workers.telemetry import read_counters

# The time of a run outside of its training: mostly starting and ending its process.
PROCESS_SECONDS = 1.0
# An estimate from one pair is too rough to give up four pairs that would only just not fit.
SURELY_TOO_LONG = 1.2


@attrs.frozen
class World:
    """The clock and the machine around a measurement, which tests replace.

    `now` counts seconds from any start; `watch_idle` returns the warning that the machine is busy,
    or nothing.
    """

    now: Callable[[], float] = time.monotonic
    watch_idle: Callable[[], tuple[str, ...]] = watch_idle
    counters: Callable[[], Counters] = read_counters


@attrs.define
class Pace:
    """The time that a measurement has taken, against its budget.

    :param budget: the budget, None if the number of pairs is fixed.
    :param earlier: the time that was used before the measurement was resumed.
    """

    world: World
    budget: float | None
    earlier: float = 0.0
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


def estimated_round(prepared: Prepared, variants: int) -> float | None:
    """Return the seconds of a round of full trainings, estimated before the first; None if unknown.
    It is assumed that the stack does not change them."""
    # several processes take many seconds to start, and their gain is unknown
    if prepared.training_seconds is None or prepared.several_processes:
        return None
    return variants * (prepared.training_seconds + PROCESS_SECONDS)
