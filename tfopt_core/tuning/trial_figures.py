"""What a pair of runs says of a trial: its ratio, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfopt_core.errors import InputError, PreparationFailed, RecipeError, TfoptError
from tfopt_core.recipe import Objective
from tfopt_core.recipe.model import TuneObjective
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import RunResult
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.figures import compared_seconds, not_projected
from tfopt_core.statistics.pairs import Pair
from tfopt_core.tuning.contrast import Decision
from tfopt_core.tuning.results import TrialOutcome


class NoFigure(Exception):
    """A trial without a figure: its outcome and the reason."""

    def __init__(self, outcome: TrialOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def log_ratio(objective: Objective, without: RunResult, with_: RunResult) -> float:
    """Return ln(figure without / figure with) of a pair of runs that ended well.

    :raises NoFigure: if a figure is missing.
    """
    if objective == "memory":
        before, after = _peaks(without, with_)
    else:
        kind = ComparisonKind.END_TO_END
        if objective == "time-to-target":
            kind = ComparisonKind.TIME_TO_TARGET
        elif any(not_projected(run) is not None for run in (without, with_)):
            kind = ComparisonKind.STEPS
        figures = compared_seconds([Pair(without, with_)], kind)
        if isinstance(figures, str):
            raise NoFigure(TrialOutcome.FAILED, figures)
        (before,), (after,) = figures
    return math.log(before / after)


def misses_target(run: RunResult) -> bool:
    """Return whether a run that ended well never reached the target."""
    return run.fit.seconds_to_target is None


def check_math(prepared: Prepared, objective: TuneObjective) -> None:
    """Check that no plugin changes the training where nothing reads how it learns.

    :raises NoFigure: naming the plugin.
    """
    if objective not in ("time", "memory"):
        return
    for one in prepared.plugins:
        if one.equivalence == "changes":
            why = f'{one.name} changes the training, which "{objective}" may not'
            raise NoFigure(TrialOutcome.REFUSED, why)


def _peaks(without: RunResult, with_: RunResult) -> tuple[float, float]:
    for figure in ("peak_device_bytes", "peak_rss_bytes"):
        before, after = getattr(without, figure), getattr(with_, figure)
        if before and after:
            return before, after
    raise NoFigure(TrialOutcome.FAILED, "the peak memory of its runs is not known")


def cause_of(run: RunResult) -> str:
    """Return the first line of why a run failed."""
    lines: Mapping[Any, None] = dict.fromkeys((run.error or "").strip().splitlines())
    return next(iter(lines), "no cause is known")


def decision_of(error: NoFigure | TfoptError) -> Decision:
    """Return the outcome of a trial that ended with this error."""
    if isinstance(error, NoFigure):
        return Decision(error.outcome, error.reason)
    if isinstance(error, RecipeError):
        reason = error.problems[0].message
    else:
        text = error.cause if isinstance(error, PreparationFailed) else str(error)
        reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if error.out_of_memory:
        return Decision(TrialOutcome.OUT_OF_MEMORY, reason)
    refused = isinstance(error, InputError)
    return Decision(TrialOutcome.REFUSED if refused else TrialOutcome.FAILED, reason)
