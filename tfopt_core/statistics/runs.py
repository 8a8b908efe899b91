"""The runs of a measurement, as `--json` writes them, and their pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from tfopt_core.training.messages import FitFacts, RunFacts

# The variants of a stack; the last begins the name of the full stack with additions.
BASELINE, FULL, PLUS = "baseline", "full", "plus "
# "served": the process only served a training of other processes.
RunStatus = Literal["ok", "failed", "served"]


@attrs.frozen(kw_only=True)
class FitResult(FitFacts):
    """One fit of a run.

    `one_time_seconds` are tracing, compilation, cache filling and, for several processes,
    `cluster_seconds`. `step_seconds` is the mean of the warm blocks, stalls included, None if
    there are none. `metrics` are the last epoch's. `epochs_to_target` and `seconds_to_target`
    (counted from the start of the run's training) are None without a target or if it was not
    reached. A fit that was cut short is not `complete`: its metrics are no result, and
    `projected_seconds` is what the whole training would take; None if unknown, for the reason
    in `why_not_projected`. `wall_seconds` are those of a script's call of `fit`.
    """

    one_time_seconds: float
    step_seconds: float | None
    examples_per_second: float | None
    epochs_to_target: int | None
    seconds_to_target: float | None
    metrics: Mapping[str, float]
    complete: bool = True
    projected_seconds: float | None = None
    why_not_projected: str = ""
    wall_seconds: float | None = None

    @property
    def planned_steps(self) -> int | None:
        """The steps, with those that were left out when it was cut short; None if unknown."""
        if self.complete:
            return self.steps
        if self.planned_epochs is None or self.steps_per_epoch is None:
            return None
        return self.planned_epochs * self.steps_per_epoch


@attrs.frozen(kw_only=True)
class RunResult(RunFacts):
    """One run: one training in one process.

    `variant` is "baseline", "full" or "without NAME"; `round` and `position` count from 0 and say
    when it ran; `started` says how its process began ("spawned" or "forked"). `process_seconds`
    hold its whole process; `disturbance` is what else the machine did meanwhile. A failed run has
    its cause in `error` and the end of its output in `output_tail`, and does not count.
    """

    id: str
    variant: str
    round: int
    position: int
    seed: int
    status: RunStatus
    process_seconds: float | None = None
    started: str = "spawned"
    disturbance: Mapping[str, float] = attrs.field(factory=dict)
    fits: tuple[FitResult, ...] = ()
    error: str | None = None
    output_path: str | None = None
    output_tail: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.ok and self.judged is not None and not 0 <= self.judged < len(self.fits):
            raise ValueError(f"run {self.id} has no fit {self.judged} that could be judged")

    @property
    def ok(self) -> bool:
        """Whether the run counts."""
        return self.status == "ok"

    @property
    def fit(self) -> FitResult:
        """The fit whose model is judged: the named one, else the last."""
        return self.fits[-1 if self.judged is None else self.judged]

    def value_of(self, metric: str) -> float | None:
        """Return a metric of the judged fit; if none is named, of the last that reports it."""
        reported = (fit.metrics.get(metric) for fit in reversed(self.timed_fits))
        return next((value for value in reported if value is not None), None)

    @property
    def timed_fits(self) -> tuple[FitResult, ...]:
        """The fits whose time is judged: the named one, else all."""
        return self.fits if self.judged is None else (self.fits[self.judged],)

    @property
    def complete(self) -> bool:
        """Whether all timed fits were trained to their end."""
        return all(fit.complete for fit in self.timed_fits)


@attrs.frozen
class Pair:
    """Two runs of one round; a gain is `without` against `with_`."""

    without: RunResult
    with_: RunResult


def runs_of(pairs: Sequence[Pair]) -> list[RunResult]:
    """Return both runs of each pair."""
    return [run for pair in pairs for run in (pair.without, pair.with_)]


def pairs_of(
    runs: Sequence[RunResult], without: str = BASELINE, with_: str = FULL
) -> tuple[Pair, ...]:
    """Return the pairs of the rounds in which both variants ended well, in order."""
    rounds: dict[int, dict[str, RunResult]] = {}
    for run in runs:
        if run.ok:
            rounds.setdefault(run.round, {})[run.variant] = run
    return tuple(
        Pair(rounds[round_][without], rounds[round_][with_])
        for round_ in sorted(rounds)
        if without in rounds[round_] and with_ in rounds[round_]
    )


def wall_seconds(run: RunResult) -> float:
    """Return the wall time of a run that ended well."""
    assert run.wall_seconds is not None
    return run.wall_seconds


def applied_plugins(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return the plugins whose effect every one of these runs confirmed."""
    if not runs:
        return ()
    return tuple(
        name
        for name in runs[0].effects
        if all(name in run.effects and run.effects[name].applied for run in runs)
    )
