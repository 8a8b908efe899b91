"""The progress events of a measurement, as frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tfopt_core.measurement.plan import MeasurementState
from tfopt_core.statistics.runs import RunResult
from tfopt_core.trials.request import Prepared


@attrs.frozen
class Preparing:
    """The dry build and the plugins' `resolve` are under way."""


@attrs.frozen
class Certifying:
    """A short training is being replayed without and with the stack."""


@attrs.frozen(kw_only=True)
class Ready:
    """Set-up is done: the dry build, and the plan. `runs_done` were made before a resume."""

    prepared: Prepared
    state: MeasurementState
    total_runs: int
    runs_done: int = 0

    @property
    def estimated_seconds(self) -> float | None:
        """About how long all runs take; None if unknown, or if some were made."""
        seconds = self.state.group_seconds
        return None if seconds is None or self.runs_done else self.state.pairs * seconds


@attrs.frozen
class Noted:
    """A message about the measurement, such as that runs take no turns any more."""

    text: str


@attrs.frozen(kw_only=True)
class RunStarted:
    """A run's process starts; `index` counts from 0."""

    index: int
    total_runs: int
    variant: str


@attrs.frozen(kw_only=True)
class RunProgress:
    """The progress of the run that trains now. `epoch` counts from 0, as in Keras, and `step`
    within the epoch; `metrics` are those of the last finished epoch, empty before. `ended` says
    that the epoch is over."""

    run: RunStarted
    epoch: int
    epochs: int
    step: int
    steps_per_epoch: int | None
    metrics: Mapping[str, float]
    ended: bool = False


@attrs.frozen(kw_only=True)
class RunEnded:
    """A run has ended and is stored. `speedup_so_far` is the mean over complete pairs, None before
    the first; `seconds_left` is an estimate, None if there is no basis for one yet."""

    index: int
    total_runs: int
    run: RunResult
    speedup_so_far: float | None
    seconds_left: float | None


Event = Preparing | Certifying | Ready | Noted | RunStarted | RunProgress | RunEnded

# Whatever takes events: the live view, plain lines, a list in a test.
Observer = Callable[[Event], object]
